"""Make each new connection what the statements here were written for, or refuse its database in one sentence.

What an operator set for a role or a database (ALTER ROLE … SET) would change what a statement means, or end it.
Straight to Postgres, the session is told once. Behind a pooler (PgBouncer in transaction mode) a session is lent for one
transaction only: there each transaction says it for itself, and nothing is prepared or left behind.
"""

from collections.abc import Mapping
from typing import Any

import psycopg
from sqlalchemy import Connection, make_url

from pidispatch.errors import DatabaseUnfit

# `search_path` is the operator's: it says where the tables are. Time-outs are ours alone, so that a lock that nobody
# lets go of is an error that is told and tried again, and a worker that stands still does not hold rows for ever.
WANTED: Mapping[str, str] = {
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "array_nulls": "on",
    "default_transaction_deferrable": "off",
    "default_transaction_isolation": "read committed",
    "idle_in_transaction_session_timeout": "20s",  # what it holds stops others for less than the 30 s promised
    "idle_session_timeout": "0",
    "lock_timeout": "30s",
    "standard_conforming_strings": "on",
    "statement_timeout": "60s",
    "transaction_timeout": "0",
}
# A cable that was pulled is noticed within a minute, not after the hours that are usual.
KEEPALIVE: Mapping[str, int] = {
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
CONNECT_SECONDS = 5
# Whose process answers is asked of it: a pooler hands out a number of its own at the connect. What a version of Postgres
# does not know is left out. A pooler keeps two words for each of its clients; they are needed when a result is read,
# which may be after the transaction. A commit that may be forgotten (`off`) is no commit of a run; a stricter word stays.
ASK = """
WITH wanted (name, value) AS (
  SELECT name, value FROM unnest(%(names)s::text[], %(values)s::text[]) w (name, value)
  WHERE current_setting(name, true) IS NOT NULL
  UNION ALL SELECT 'synchronous_commit', 'on' WHERE current_setting('synchronous_commit') = 'off')
SELECT current_setting('server_encoding'), pg_is_in_recovery(), current_setting('transaction_read_only') = 'on',
       pg_backend_pid() = %(backend)s, (SELECT array_agg(name) FROM wanted),
       (SELECT count(set_config(name, value, false)) FROM wanted
        WHERE pg_backend_pid() = %(backend)s OR name IN ('DateStyle', 'TimeZone'))
"""
INFO = "pidispatch_each_transaction"


def arguments(url: str, *, application: str) -> dict[str, Any]:
    """What is said at the connect. Of the address's own words only the encoding is not obeyed."""
    given = make_url(url).query
    said: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, **KEEPALIVE}
    ours = {name: value for name, value in said.items() if name not in given}
    return {**ours, "application_name": application, "client_encoding": "UTF8"}


def prepare(driver: psycopg.Connection, record: Any) -> None:
    """The hook of a new connection: one round trip. Raises DatabaseUnfit; then the connection is closed."""
    driver.autocommit = True
    asked = {
        "names": list(WANTED),
        "values": list(WANTED.values()),
        "backend": driver.info.backend_pid,
    }
    try:
        # Put together here, so that one message holds them all: the operator's own time-out must not end the question.
        cursor = psycopg.ClientCursor(driver).execute(
            f"BEGIN; SET LOCAL statement_timeout = 0; {ASK}; COMMIT", asked
        )
        cursor.nextset()
        cursor.nextset()
        answer = cursor.fetchone()
        assert answer is not None  # noqa: S101 - a SELECT without FROM has one row
        encoding, standby, read_only, direct, names, _ = answer
        _refuse(encoding, standby=standby, read_only=read_only)
    except BaseException:
        driver.close()
        raise
    driver.autocommit = False
    record.info[INFO] = ()
    if not direct:
        driver.prepare_threshold = None  # the next transaction may be in another session
        driver.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        record.info[INFO] = tuple(
            f"SET LOCAL {name} = '{WANTED.get(name, 'on')}'"
            for name in names
            if not name.startswith("default_transaction")
        )


def begin(connection: Connection) -> None:
    """The hook of a transaction: behind a pooler one round trip, else nothing."""
    said = connection.info.get(INFO)
    if not said:
        return
    try:
        connection.connection.driver_connection.execute("; ".join(said))  # type: ignore[union-attr]
    except psycopg.Error:
        connection.invalidate()  # or the pool would try to roll it back, and log that it cannot
        raise


def _refuse(encoding: str, *, standby: bool, read_only: bool) -> None:
    if encoding != "UTF8":
        raise DatabaseUnfit(
            f"its encoding is {encoding}, which does not hold every text: make one with"
            " `CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'` and name it in DATABASE_URL",
            lasting=True,
        )
    if standby:
        raise DatabaseUnfit(
            "it is a standby and takes no writes: name the primary in DATABASE_URL, or several hosts with"
            " target_session_attrs=read-write"
        )
    if read_only:
        raise DatabaseUnfit(
            "it takes no writes, because default_transaction_read_only is on for this server, database or role:"
            " find out who set it, then `ALTER … RESET default_transaction_read_only`"
        )
