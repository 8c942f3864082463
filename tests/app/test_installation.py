"""An installation opens each part once, when it is first asked for, and closes what it opened."""

import pytest

from pidispatch.app.installation import Addresses, Installation
from pidispatch.config import load
from pidispatch.errors import ConfigurationRefused, SchemaDiffers

NOBODY = "redis://127.0.0.1:1"


@pytest.fixture
def settings(tmp_path):
    return load({"PIDISPATCH_HOME": str(tmp_path), "PI_WORKER_NAME": "h1"}, None)


@pytest.fixture
def installation(settings):
    made = []

    def make(database="postgresql+psycopg://u@/d?host=/nonexistent", redis=NOBODY):
        made.append(Installation(settings, where=Addresses(database, redis)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def backends(database):
    """How many connections of commands the server has, beside the one that asks."""
    with database.transaction() as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pidispatch cli' AND datname = current_database()"
        return connection.exec_driver_sql(asked).scalar_one()


def test_nothing_is_opened_by_holding_one(installation):
    here = installation()

    assert (here.host, here.actor.partition("@")[2]) == ("h1", "h1")
    assert here.runtime() is here.runtime()  # of an engine that nobody has asked yet
    assert here.gateway is here.gateway


def test_each_part_is_opened_once_and_closed_at_the_end(installation, database_url, database):
    with installation(database_url) as here:
        assert here.database is here.any_database is here.database
        assert here.database.now() is not None
        assert backends(database) == 1

    here.close()  # a second time is no fault

    assert backends(database) == 0


def test_another_schema_is_refused_each_time_it_is_asked_for(installation, database_url, database):
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE pidispatch_alembic_version SET version_num = '9999'")
    here = installation(database_url)

    for _ in range(2):
        with pytest.raises(SchemaDiffers):
            _ = here.database
    assert here.any_database.now() is not None


def test_a_bell_that_nobody_hears_is_told_and_no_error(installation):
    assert installation().ring(lambda bell: bell.ring_start("h1")) is False


def test_without_redis_there_is_no_bell_and_nothing_to_tell_of_it(settings):
    with Installation(settings) as here:
        assert here.ring(lambda bell: bell.ring_start("h1")) is False
        assert here.redis_facts() is None
        with pytest.raises(ConfigurationRefused, match="no `pidispatch up` runs"):
            _ = here.database


def test_a_bell_is_heard(installation, redis_url):
    here = installation(redis=redis_url)

    assert here.ring(lambda bell: bell.ring_start("h1")) is True
    assert here.bell.pending("h1") == 1
