"""What arrived long ago is forgotten, some of it in each pass, and nothing that a live run needs."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from pidispatch.domain.triggers.arrival import Became
from pidispatch.store.database import Database
from pidispatch.store.hosts import hosts as hosts_module
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.runs.cancelling import cancel
from pidispatch.store.triggers.arrivals import Arrivals
from tests.store.arriving import ISSUE, an_arrival
from tests.store.builders import HOST, a_host, value


@pytest.fixture
def hosts(database):
    a_host(database)
    return Hosts(database, host=HOST)


def arrive(database, number=7, *, ended=True):
    arrived = Arrivals(database).arrive(an_arrival(subject=replace(ISSUE, item=f"#{number}")))
    if ended:
        cancel(database, arrived.run_id, actor="ada@h1")
    return arrived


def days_pass(database, days):
    with database.transaction() as connection:
        for table, column in (
            ("subjects", "arrived_at"),
            ("deliveries", "received_at"),
            ("runs", "created_at"),
        ):
            connection.execute(text(f"UPDATE {table} SET {column} = {column} - interval '{days} days'"))


def kept(database):
    return tuple(value(database, f"SELECT count(*) FROM {table}") for table in ("subjects", "deliveries"))


@pytest.mark.parametrize(("days", "left"), [(29, (1, 1)), (31, (0, 1)), (89, (0, 1)), (91, (0, 0))])
def test_subjects_are_kept_for_thirty_days_and_deliveries_for_ninety(database, hosts, days, left):
    arrive(database)
    days_pass(database, days)

    hosts.tidy()

    assert kept(database) == left
    assert value(database, "SELECT subject FROM runs") == ISSUE.key


def test_a_run_that_has_not_ended_keeps_its_subject_and_who_asked_for_it(database, hosts):
    arrive(database, ended=False)
    days_pass(database, 1000)

    hosts.tidy()

    assert kept(database) == (1, 1)


def test_what_is_forgotten_may_arrive_again(database, hosts):
    arrive(database)
    days_pass(database, 1000)
    hosts.tidy()

    assert arrive(database, ended=False).kind is Became.STARTED
    assert arrive(database, ended=False).kind is Became.COALESCED


def test_one_pass_forgets_no_more_than_it_may(database, hosts, monkeypatch):
    monkeypatch.setattr(hosts_module, "MOST_FORGOTTEN", 2)
    for number in range(5):
        arrive(database, number)
    days_pass(database, 1000)

    left = []
    for _ in range(3):
        hosts.tidy()
        left.append(kept(database))

    assert left == [(3, 3), (1, 1), (0, 0)]


def test_a_subject_for_which_something_arrives_now_is_passed_over(database, database_url, hosts):
    arrive(database)
    days_pass(database, 1000)
    other = Database(database_url, pool_size=1)
    with other.transaction() as connection:
        connection.execute(text("SELECT 1 FROM subjects FOR UPDATE"))
        hosts.tidy()

    assert kept(database) == (1, 0)
    other.close()
