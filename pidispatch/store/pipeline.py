"""Send several statements in one round trip, so that a lock is not held while a process waits for its turn."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import psycopg
from psycopg.rows import namedtuple_row
from sqlalchemy import Connection, TextClause, text
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from pidispatch.store.database import Database

COMMIT = text("COMMIT")
Asked = tuple[TextClause, Mapping[str, Any]]
_DIALECT = PGDialect_psycopg()  # type: ignore[no-untyped-call]


def alone(database: Database, statement: TextClause, values: Mapping[str, Any]) -> list[Any]:
    """The rows of one statement that is a whole transaction, and a single round trip; each with the names of its columns.

    Raises DatabaseUnavailable, DatabaseRefused.
    """
    with database.driver() as (driver, first):
        if not first:
            return driver.cursor(row_factory=namedtuple_row).execute(_sql(statement), values).fetchall()
        with driver.pipeline():
            for said in ("BEGIN ISOLATION LEVEL READ COMMITTED", *first):
                driver.execute(said)
            cursor = driver.cursor(row_factory=namedtuple_row).execute(_sql(statement), values)
            driver.execute("COMMIT")
        return cursor.fetchall()


def together(connection: Connection, *asked: Asked) -> list[list[Any]]:
    """The rows of each statement, in order; none of them sees a result of another. A failure fails them all.

    Postgres still runs the statements one after the other, each with a snapshot of its own. JSON is given as `Jsonb`.
    Raises psycopg's errors, which `Database.transaction` translates.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, psycopg.Connection)  # noqa: S101 - the URL names psycopg
    with driver.pipeline():
        cursors = [
            driver.cursor(row_factory=namedtuple_row).execute(_sql(statement), values)
            for statement, values in asked
        ]
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


@cache
def _sql(statement: TextClause) -> bytes:
    return str(statement.compile(dialect=_DIALECT)).encode()
