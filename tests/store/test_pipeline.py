"""Statements sent together are one transaction, whatever becomes of them."""

import psycopg
import pytest
from sqlalchemy import text

from pidispatch.errors import DatabaseUnavailable
from pidispatch.store.database import Database
from pidispatch.store.pipeline import COMMIT, alone, together
from tests.store.builders import value

ADD = text("INSERT INTO scopes (key) VALUES (:key)")
ADDED = text("INSERT INTO scopes (key) VALUES (:key) RETURNING key")
COUNT = "SELECT count(*) FROM scopes WHERE key LIKE 'folder:%'"
BREAK = text("SELECT 1 / 0")
END_ME = text("SELECT pg_terminate_backend(pg_backend_pid())")


def test_what_was_sent_together_is_committed_at_the_end(database):
    with database.transaction() as connection:
        together(connection, (ADD, {"key": "folder:a"}), (ADD, {"key": "folder:b"}))
        assert value(database, COUNT) == 0

    assert value(database, COUNT) == 2


def test_a_statement_alone_is_committed(database):
    assert alone(database, ADDED, {"key": "folder:a"}) == [("folder:a",)]

    assert value(database, COUNT) == 1


def test_an_error_in_one_undoes_them_all_and_those_before(database):
    def broken():
        with database.transaction() as connection:
            together(connection, (ADD, {"key": "folder:a"}))
            together(
                connection, (ADD, {"key": "folder:b"}), (BREAK, {}), (ADD, {"key": "folder:c"}), (COMMIT, {})
            )

    with pytest.raises(psycopg.DataError):
        broken()

    assert value(database, COUNT) == 0


def test_an_error_of_the_caller_undoes_what_was_sent_in_both_ways(database):
    def broken():
        with database.transaction() as connection:
            together(connection, (ADD, {"key": "folder:a"}))
            connection.execute(ADD, {"key": "folder:b"})
            raise KeyError

    with pytest.raises(KeyError):
        broken()

    assert value(database, COUNT) == 0


def sent_within(database):
    with database.transaction() as connection:
        together(connection, (ADD, {"key": "folder:a"}), (END_ME, {}))


@pytest.mark.parametrize("broken", [sent_within, lambda database: alone(database, END_ME, {})])
def test_a_lost_connection_is_said_in_our_words_and_not_used_again(database_url, broken):
    database = Database(database_url, pool_size=1)

    with pytest.raises(DatabaseUnavailable):
        broken(database)

    assert alone(database, text(COUNT), {}) == [(0,)]
    with database.transaction() as connection:
        assert together(connection, (text(COUNT), {}))[0][0].count == 0
    database.close()
