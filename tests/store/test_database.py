"""Connections outlive nothing: a restarted Postgres is met by new ones."""

import pytest
from sqlalchemy import text

from pidispatch.errors import DatabaseUnavailable
from tests.support.patience import eventually

OURS = "FROM pg_stat_activity WHERE application_name = 'pidispatch'"


def backend(connection):
    return connection.execute(text("SELECT pg_backend_pid()")).scalar_one()


def drop_all(services):
    with services.administrator() as administrator:
        administrator.execute(f"SELECT pg_terminate_backend(pid) {OURS}")
        eventually(lambda: administrator.execute(f"SELECT count(*) {OURS}").fetchone() == (0,))


def work_across_a_restart(services, database):
    with database.transaction() as connection:
        backend(connection)
        drop_all(services)
        backend(connection)


def test_work_after_a_restart_meets_no_old_connection(services, database):
    with database.transaction() as one, database.transaction() as two, database.transaction() as three:
        before = {backend(one), backend(two), backend(three)}
    drop_all(services)

    with database.transaction() as one, database.transaction() as two, database.transaction() as three:
        after = {backend(one), backend(two), backend(three)}

    assert len(before) == len(after) == 3
    assert not before & after


def test_a_connection_that_breaks_in_mid_work_is_told_as_an_absence(services, database):
    with pytest.raises(DatabaseUnavailable):
        work_across_a_restart(services, database)

    assert database.now()


def test_a_connection_is_used_again(database):
    with database.transaction() as connection:
        first = backend(connection)

    with database.transaction() as connection:
        assert backend(connection) == first
