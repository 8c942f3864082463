"""Statements sent together are one transaction, whatever becomes of them."""

import psycopg
import pytest
from sqlalchemy import text

from pidispatch.errors import DatabaseUnavailable
from pidispatch.store.database import Database
from pidispatch.store.pipeline import COMMIT, together
from tests.store.builders import value

ADD = text("INSERT INTO scopes (key) VALUES (:key)")
COUNT = "SELECT count(*) FROM scopes WHERE key LIKE 'folder:%'"
BREAK = text("SELECT 1 / 0")
END_ME = text("SELECT pg_terminate_backend(pg_backend_pid())")


@pytest.mark.parametrize("begun", [True, False])
def test_what_was_sent_together_is_committed_at_the_end(database, begun):
    with database.transaction(begun=begun) as connection:
        together(connection, (ADD, {"key": "folder:a"}), (ADD, {"key": "folder:b"}))
        assert value(database, COUNT) == 0

    assert value(database, COUNT) == 2


@pytest.mark.parametrize("begun", [True, False])
def test_an_error_in_one_undoes_them_all_and_those_before(database, begun):
    def broken():
        with database.transaction(begun=begun) as connection:
            together(connection, (ADD, {"key": "folder:a"}))
            together(
                connection, (ADD, {"key": "folder:b"}), (BREAK, {}), (ADD, {"key": "folder:c"}), (COMMIT, {})
            )

    with pytest.raises(psycopg.DataError):
        broken()

    assert value(database, COUNT) == 0


def test_an_error_of_the_caller_undoes_what_was_sent(database):
    def broken():
        with database.transaction(begun=False) as connection:
            together(connection, (ADD, {"key": "folder:a"}))
            raise KeyError

    with pytest.raises(KeyError):
        broken()

    assert value(database, COUNT) == 0


@pytest.mark.parametrize("begun", [True, False])
def test_a_lost_connection_is_said_in_our_words_and_not_used_again(database_url, begun):
    database = Database(database_url, pool_size=1)

    def broken():
        with database.transaction(begun=begun) as connection:
            together(connection, (ADD, {"key": "folder:a"}), (END_ME, {}))

    with pytest.raises(DatabaseUnavailable):
        broken()

    with database.transaction(begun=begun) as connection:
        assert together(connection, (text(COUNT), {}))[0][0].count == 0
    database.close()


def test_statements_through_sqlalchemy_share_the_transaction(database):
    def broken():
        with database.transaction(begun=False) as connection:
            together(connection, (ADD, {"key": "folder:a"}))
            connection.execute(ADD, {"key": "folder:b"})
            raise KeyError

    with pytest.raises(KeyError):
        broken()

    assert value(database, COUNT) == 0
