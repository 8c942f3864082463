"""Open transactions on Postgres, and translate its errors once."""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError

from pidispatch.errors import DatabaseRefused, DatabaseUnavailable

NOT_ALLOWED = {"42501", "25006"}  # insufficient privilege, read-only transaction


class Database:
    """A pool of connections. `url` is a SQLAlchemy URL for psycopg 3; nothing connects before the first use."""

    def __init__(self, url: str, *, pool_size: int = 5, application: str = "pidispatch") -> None:
        self.url = make_url(url)
        self._engine: Engine = create_engine(
            self.url,
            pool_size=pool_size,
            max_overflow=pool_size,
            pool_pre_ping=False,
            hide_parameters=True,  # else an error's text shows tasks and paths
            pool_use_lifo=True,  # the connection used last has its statements prepared
            connect_args={"application_name": application, "connect_timeout": 5},
        )
        event.listen(self._engine, "checkout", _leave_out_the_dead)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Commit at the end, roll back on any error. Raises DatabaseUnavailable, DatabaseRefused."""
        with _translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def driver(self) -> Iterator[psycopg.Connection]:
        """A connection of the pool that begins and commits nothing by itself. Raises as `transaction` does."""
        with _translated():
            pooled = self._engine.raw_connection()
            try:
                driver = pooled.driver_connection
                assert isinstance(driver, psycopg.Connection)  # noqa: S101 - the URL names psycopg
                driver.autocommit = True
                yield driver
                driver.autocommit = False
            except BaseException:
                pooled.invalidate()  # nobody knows what it is in the middle of
                raise
            finally:
                pooled.close()

    def now(self) -> datetime:
        """Postgres's clock: the only one that decides."""
        with self.transaction() as connection:
            moment: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
            return moment

    def close(self) -> None:
        self._engine.dispose()


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as error:
        raise DatabaseUnavailable(_first_line(error)) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:  # past SQLAlchemy
        raise DatabaseUnavailable(str(error).strip().partition("\n")[0]) from error
    except DBAPIError as error:
        if error.connection_invalidated:
            raise DatabaseUnavailable(_first_line(error)) from error
        if getattr(error.orig, "sqlstate", None) in NOT_ALLOWED:
            raise DatabaseRefused(_first_line(error)) from error
        raise


def _leave_out_the_dead(connection: Any, *_: Any) -> None:
    """A connection that says something while nobody asks was closed by its server: then all older ones were.

    It costs a system call where a ping costs a round trip; and without it a restart of Postgres would fail the
    first work of every process, however long ago it was.
    """
    said = select.poll()
    said.register(connection.fileno(), select.POLLIN)
    if said.poll(0):
        raise InvalidatePoolError


def _first_line(error: DBAPIError) -> str:
    """The driver's sentence, without the statement and its parameters."""
    return str(error.orig).strip().splitlines()[0] if str(error.orig).strip() else type(error.orig).__name__
