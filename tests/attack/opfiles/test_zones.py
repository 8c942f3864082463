"""The zone of schedules without `tz` is settled once, whatever the clocks of the workers of a host say."""

import time

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from pidispatch.store.hosts.zones import HostZones, settled_zones
from pidispatch.upkeep.scheduledruns import ScheduledRuns
from pidispatch.upkeep.scheduler import SYNC_AGAIN, Scheduler
from tests.store.builders import a_host, value
from tests.support.timed import HOST, Folders, an_entry, the_file, the_schedules

ZONE = "SELECT zone FROM schedules WHERE id = 'nightly'"
NEXT = "SELECT next_at FROM schedules WHERE id = 'nightly'"


class Bells:
    def ring_start(self, host, times=1):
        del host, times


class Worker:
    """The scheduler of a worker whose clock shows `zone`."""

    def __init__(self, database, zone, host=HOST):
        self.file = the_file(an_entry(tz=None))
        self.later = 0.0
        folders = Folders()
        self.scheduler = Scheduler(
            host=host,
            host_zone=zone,
            zones=HostZones(database, host=host, by=f"{host}:{zone}").zones,
            schedules=the_schedules(database, host=host, folders=folders),
            triggers=lambda: self.file,
            runs=ScheduledRuns(host=host, open_folder=folders),
            bell=Bells(),
            most_bells=4,
            count_endings=lambda: None,
            monotonic=lambda: time.monotonic() + self.later,
        )

    def look(self):
        """At the rows too, as half a minute later."""
        self.later += SYNC_AGAIN + 1
        self.scheduler.look()


@pytest.fixture
def hosts(database):
    a_host(database)
    return database


def test_two_clocks_on_one_host_never_flip_a_schedule(hosts):
    utc, tokyo = Worker(hosts, "UTC"), Worker(hosts, "Asia/Tokyo")
    utc.look()
    settled = value(hosts, ZONE), value(hosts, NEXT)

    with capture_logs() as logs:
        for _ in range(13):
            tokyo.look()
            utc.look()
            assert (value(hosts, ZONE), value(hosts, NEXT)) == settled

    (told,) = [each for each in logs if each["event"] == "schedules_zone_differs"]
    assert (told["settled"], told["own"]) == ("UTC", "Asia/Tokyo")
    assert "triggers zone" in told["way_out"]


def test_it_is_settled_after_a_restart_with_another_clock_too(hosts):
    Worker(hosts, "Europe/Berlin").look()

    Worker(hosts, "UTC").look()

    assert value(hosts, ZONE) == "Europe/Berlin"
    assert settled_zones(hosts)[HOST].settled_by == f"{HOST}:Europe/Berlin"


def test_entries_that_come_later_are_in_the_settled_zone_whoever_sees_them_first(hosts):
    utc, tokyo = Worker(hosts, "UTC"), Worker(hosts, "Asia/Tokyo")
    utc.look()
    tokyo.file = utc.file = the_file(an_entry(tz=None), an_entry("later", tz=None, index=1))

    tokyo.look()
    utc.look()

    assert value(hosts, "SELECT zone FROM schedules WHERE id = 'later'") == "UTC"


def test_a_host_that_takes_a_schedule_over_keeps_its_zone(hosts):
    a_host(hosts, host="h2")
    Worker(hosts, "Asia/Tokyo").look()
    other = Worker(hosts, "America/New_York", host="h2")
    other.look()
    with hosts.transaction() as connection:
        connection.execute(
            text("UPDATE hosts SET heartbeat_at = now() - interval '1 hour' WHERE name = 'h1'")
        )

    for _ in range(3):
        other.look()

    assert value(hosts, "SELECT host FROM schedules WHERE id = 'nightly'") == "h2"
    assert value(hosts, ZONE) == "Asia/Tokyo"


def test_an_operator_changes_it_for_all_workers(hosts):
    utc, tokyo = Worker(hosts, "UTC"), Worker(hosts, "Asia/Tokyo")
    utc.look()

    before = HostZones(hosts, host=HOST, by="me@h1").change("Europe/Berlin")

    assert before.zone == "UTC"
    for worker in (tokyo, utc, tokyo):
        worker.look()
        assert value(hosts, ZONE) == "Europe/Berlin"
    assert value(hosts, "SELECT actor FROM audit_log WHERE action = 'triggers-zone'") == "me@h1"


def test_an_entry_that_names_its_zone_follows_nothing(hosts):
    utc, tokyo = Worker(hosts, "UTC"), Worker(hosts, "Asia/Tokyo")
    utc.file = tokyo.file = the_file(an_entry(tz="Pacific/Auckland"))
    for worker in (utc, tokyo, utc):
        worker.look()
        assert value(hosts, ZONE) == "Pacific/Auckland"

    utc.file = tokyo.file = the_file(an_entry(tz=None))
    for worker in (tokyo, utc):
        worker.look()
        assert value(hosts, ZONE) == "UTC"
