"""Open transactions on Postgres, and translate its errors once."""

import select
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import DBAPIError, InterfaceError, InvalidatePoolError, OperationalError
from sqlalchemy.exc import TimeoutError as NoneFree

from pidispatch.errors import DatabaseRefused, DatabaseUnavailable, DatabaseUnfit
from pidispatch.store import connecting

NOT_ALLOWED = "42501"  # insufficient privilege
READ_ONLY = "25006"
ABSENT = {"42P01", "42703", "42883", "3F000"}  # a table, column, function, schema
TAKEN = {"42P07", "42710", "42723", "42701"}  # a table, other object, function, column


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
            connect_args=connecting.arguments(url, application=application),
        )
        # Before SQLAlchemy asks anything: its own questions fail on a database that is to be refused.
        event.listen(self._engine, "connect", connecting.prepare, insert=True)
        event.listen(self._engine, "begin", connecting.begin)
        event.listen(self._engine, "checkout", _leave_out_the_dead)

    @contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Commit at the end, roll back on any error. Raises DatabaseUnavailable, DatabaseRefused."""
        with _translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def driver(self) -> Iterator[tuple[psycopg.Connection, tuple[str, ...]]]:
        """A connection of the pool that begins and commits nothing by itself. Raises as `transaction` does.

        With it comes what each transaction must say first: nothing, unless a pooler is between.
        """
        with _translated():
            pooled = self._engine.raw_connection()
            try:
                driver = pooled.driver_connection
                assert isinstance(driver, psycopg.Connection)  # noqa: S101 - the URL names psycopg
                driver.autocommit = True
                yield driver, pooled.info[connecting.INFO]
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
    except DBAPIError as error:
        cause = error.orig
        broken = error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
        if isinstance(cause, psycopg.Error) and (ours := _ours(cause, broken=broken)) is not None:
            raise ours from error
        if error.statement is None and isinstance(cause, psycopg.Error) and cause.sqlstate is None:
            raise DatabaseUnavailable(_first_line(cause)) from error  # an address that the driver refuses
        raise
    except NoneFree as error:
        raise DatabaseUnavailable("every connection of this process is in use") from error
    except psycopg.Error as error:  # past SQLAlchemy
        ours = _ours(error, broken=isinstance(error, psycopg.OperationalError | psycopg.InterfaceError))
        if ours is None:
            raise
        raise ours from error


def _ours(error: psycopg.Error, *, broken: bool) -> DatabaseUnavailable | DatabaseRefused | None:
    """What a state of the server is told as; None for a fault of a statement of ours."""
    problem, code = _first_line(error), error.sqlstate or ""
    if code == NOT_ALLOWED:
        return DatabaseRefused(problem)
    if code == READ_ONLY:
        return DatabaseUnfit(f"it takes no writes: {problem}")
    if code in ABSENT:
        return DatabaseUnfit(
            f"its tables are not those of this version: {problem}; `pidispatch db check` tells more",
            lasting=True,
        )
    if code in TAKEN:
        return DatabaseUnfit(
            f"it holds something else of that name: {problem}; give pidispatch a database of its own",
            lasting=True,
        )
    if broken or code.startswith(("53", "58", "XX")):  # out of resources, a system's error, a broken server
        return DatabaseUnavailable(problem)
    return None


def _leave_out_the_dead(connection: Any, *_: Any) -> None:
    """A connection that says something while nobody asks was closed by its server: then all older ones were.

    It costs a system call where a ping costs a round trip; and without it a restart of Postgres would fail the
    first work of every process, however long ago it was.
    """
    said = select.poll()
    said.register(connection.fileno(), select.POLLIN)
    if said.poll(0):
        raise InvalidatePoolError


def _first_line(error: psycopg.Error) -> str:
    """The driver's sentence, without the statement and its parameters."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
