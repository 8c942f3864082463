"""The keeper of room: it warns, it stops the box that grows, and it needs nobody to do so."""

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import structlog

from pidispatch.domain.box.disks import GIB, DiskBounds, FileSystem
from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.box.sandbox import LABEL_ATTEMPT, LABEL_INSTALLATION, LABEL_ROLE, LABEL_RUN, ROLE_JOB
from pidispatch.domain.runs.run import Occupant, State
from pidispatch.errors import DatabaseUnavailable, EngineUnavailable
from pidispatch.upkeep import rooms
from pidispatch.upkeep.rooms import AGAIN, LIST, LOOK, RoomKeeper
from tests.support.patience import eventually

BOUNDS = DiskBounds(warn=5 * GIB, admit=2 * GIB, stop=GIB)
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def a_box(run, *, writes=None):
    labels = {LABEL_INSTALLATION: "0123abcd", LABEL_ROLE: ROLE_JOB, LABEL_RUN: str(run), LABEL_ATTEMPT: "1"}
    started = NOON + timedelta(minutes=run)
    return BoxState(
        f"box-{run}",
        f"pi-job-{run}",
        "running",
        None,
        False,
        "",
        started,
        None,
        labels,
        writes or {"/workspace": "/work"},
    )


class Host:
    """Every outside of the keeper: disks by path, boxes, and what was asked of both kinds of servers."""

    def __init__(self):
        self.free = {"/home": 100 * GIB, "/work": 100 * GIB}
        self.names_free = 10**6
        self.boxes, self.written, self.too_large = [], {}, set()
        self.asked, self.ended, self.gone = [], [], set()
        self.state = State.RUNNING
        self.engine_away, self.database = False, None
        self.now = 0.0
        self.keeper = RoomKeeper(
            installation="0123abcd",
            places=lambda: {"the home": "/home"},
            measure=self.measure,
            written_by=lambda box: self.written.get(int(box.removeprefix("box-"))),
            overfull=self.too_large.__contains__,
            watch=self,
            boxes=self,
            occupants=self,
            bounds=BOUNDS,
        )

    def measure(self, places):
        return [
            FileSystem(list(self.free).index(path), (word,), path, 1000 * GIB, int(self.free[path]), 10**6, self.names_free)
            for word, path in places.items()
        ]  # fmt: skip

    def ours(self, installation):
        if self.engine_away:
            raise EngineUnavailable("refused by the test")
        return [box for box in self.boxes if box.container_id not in self.ended]

    def inspect(self, container_id):
        if self.engine_away:
            raise EngineUnavailable("refused by the test")
        if container_id in self.gone:
            return replace(a_box(int(container_id.removeprefix("box-"))), status="exited", exit_code=0)
        return next(box for box in self.boxes if box.container_id == container_id)

    def stop(self, container_id, *, grace):
        assert grace == 0
        self.ended.append(container_id)

    def occupant(self, run_id):
        if self.database is not None:
            self.database()
        return replace(SOMEBODY, run_id=run_id, container_id=f"box-{run_id}", state=self.state)

    def request_stop(self, run_id, *, reason):
        self.asked.append((run_id, reason))

    def look(self, seconds=LOOK):
        self.now += seconds
        self.keeper.look(self.now)

    def falls(self, path, size, by=None):
        """Room of `size` bytes goes, in one piece, and is seen as written by a box."""
        self.free[path] -= size
        if by is not None:
            self.written[by] = self.written.get(by, 0) + size

    def all_stopped(self, count=1):
        return eventually(lambda: len(self.ended) == count)


SOMEBODY = Occupant(0, "r", State.RUNNING, 1, 1, "", None, None, NOON, NOON, None, None)


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def said():
    with structlog.testing.capture_logs() as lines:
        yield lines


def test_the_box_that_wrote_is_stopped_at_the_last_bound_and_the_record_says_so(host):
    host.boxes, host.written[1], host.written[2] = [a_box(1), a_box(2)], 0, 0
    host.look()

    host.falls("/work", 98 * GIB, by=2)
    host.look(3600)
    assert not host.ended  # 2 GiB are left
    host.falls("/work", 1.5 * GIB, by=2)
    host.look(3600)

    assert host.all_stopped()
    assert host.ended == ["box-2"]
    assert host.asked == [(2, "disk-low")]


def test_a_box_that_has_ended_by_itself_since_it_was_listed_is_not_the_one(host):
    host.boxes, host.written[1], host.written[2] = [a_box(1), a_box(2)], 0, 0
    host.look()
    host.gone.add("box-2")

    host.falls("/work", 99.5 * GIB, by=2)
    host.look()
    host.boxes.pop()
    host.falls("/work", GIB // 4, by=1)
    assert eventually(lambda: host.look() or host.ended)

    assert host.ended == ["box-1"]
    assert [run for run, _ in host.asked] == [1]


def test_a_run_that_is_being_finished_keeps_its_ending(host):
    host.boxes, host.written[1], host.state = [a_box(1)], 0, State.FINISHING
    host.look()

    host.falls("/work", 99.5 * GIB, by=1)
    host.look()

    assert host.all_stopped()
    assert host.asked == []


def test_a_fall_so_fast_that_a_stop_would_come_too_late_is_met_earlier(host):
    host.boxes, host.written[1] = [a_box(1)], 0
    host.free["/work"] = 3 * GIB
    host.look()

    host.falls("/work", GIB // 2, by=1)  # in a fifth of a second: 2.5 GiB more until it is dead
    host.look()

    assert host.all_stopped()
    assert host.asked == [(1, "disk-low")]


def test_what_nobody_is_seen_to_write_stops_the_oldest_and_the_next_only_if_it_goes_on(host):
    host.boxes = [a_box(2), a_box(1)]
    host.written |= {1: 0, 2: 0}
    host.look()

    host.falls("/work", 99.5 * GIB)  # reserved, not written
    host.look(3600)
    assert host.all_stopped()
    assert host.ended == ["box-1"]
    assert host.asked == [(1, "disk-low-shared")]

    host.look(LIST)
    host.look(LIST)
    assert host.ended == ["box-1"]
    host.falls("/work", GIB // 4)
    host.look(LIST)
    assert host.all_stopped(2)
    assert host.asked[1] == (2, "disk-low-shared")


def test_a_box_that_writes_elsewhere_is_left_alone(host):
    host.free["/other"] = 100 * GIB
    host.boxes, host.written[1] = [a_box(1, writes={"/workspace": "/other"})], 0
    host.look()

    host.falls("/home", 99.9 * GIB)
    host.look(3600)
    host.look(LIST)

    assert not host.keeper._stopped


def test_a_disk_that_others_filled_before_stops_nobody(host):
    host.free["/work"] = GIB // 2
    host.boxes, host.written[1] = [a_box(1)], 0

    for _ in range(20):
        host.look(LIST)

    assert not host.keeper._stopped


def test_names_that_run_out_are_met_as_bytes_are(host):
    host.boxes, host.written[1] = [a_box(1)], 0
    host.look()

    host.names_free = 15_000
    host.look(3600)

    assert host.all_stopped()
    assert host.asked == [(1, "disk-low")]


def test_an_engine_that_is_away_leaves_the_last_list_in_force_and_a_stop_is_tried_again(host):
    host.boxes, host.written[1] = [a_box(1)], 0
    host.look()
    host.engine_away, stop = True, host.stop
    tried = []

    def refuse(container_id, *, grace):
        tried.append(container_id)
        raise EngineUnavailable("refused by the test")

    host.stop = refuse
    host.falls("/work", 99.9 * GIB, by=1)
    host.look(3600)
    assert eventually(lambda: len(tried) == 1)

    host.stop, host.engine_away = stop, False
    host.falls("/work", GIB // 64, by=1)
    host.look(AGAIN)
    assert host.all_stopped()


def test_a_database_that_died_of_the_full_disk_does_not_hold_up_the_stop(host, said):
    host.boxes, host.written[1] = [a_box(1)], 0
    host.look()

    def die():
        raise DatabaseUnavailable("no space left on device")

    host.database = die
    host.falls("/work", 99.9 * GIB, by=1)
    host.look(3600)

    assert host.all_stopped()
    assert not host.asked
    assert eventually(lambda: any(line["event"] == "disk_stop_without_a_record" for line in said))


def test_a_database_that_does_not_answer_is_not_waited_for(host, monkeypatch):

    monkeypatch.setattr(rooms, "RECORD", 0.01)
    answers = threading.Event()
    host.boxes, host.written[1], host.database = [a_box(1)], 0, answers.wait
    host.look()
    host.falls("/work", 99.9 * GIB, by=1)
    host.look(3600)

    assert host.all_stopped()
    answers.set()


def test_a_box_whose_outbox_grew_without_a_bound_of_the_kernel_is_stopped(host):
    host.boxes = [a_box(1), a_box(2)]
    host.too_large.add("pi-job-2")

    host.look()

    assert host.all_stopped()
    assert host.asked == [(2, "box-files-too-large")]


def test_each_bound_is_told_once_and_the_return_of_room_too(host, said):
    host.look()
    for free in (4, 4, 1.5, 1.5, 0.5, 6):
        host.free["/home"] = free * GIB
        host.look(3600)

    assert [line["event"] for line in said] == ["disk_scarce", "disk_low", "disk_low", "disk_has_room"]


def test_a_box_that_fills_an_outbox_of_its_own_size_harms_nobody_and_is_left_alone(host):
    host.free["/sized"] = 100 * GIB
    host.boxes, host.written[1] = [a_box(1, writes={"/workspace": "/work", "/outbox": "/sized"})], 0
    host.look()

    host.falls("/sized", 100 * GIB)
    host.look(3600)
    host.look(LIST)

    assert not host.keeper._stopped


def test_an_outbox_on_the_hosts_own_disk_counts_as_a_folder_does(host):
    host.boxes, host.written[1] = [a_box(1, writes={"/outbox": "/home"})], 0
    host.look()

    host.falls("/home", 99.9 * GIB, by=1)
    host.look(3600)

    assert host.all_stopped()


def test_what_went_while_no_run_wrote_there_is_not_put_on_the_next_one(host):
    host.boxes, host.written[1] = [a_box(1)], 0
    host.look()
    host.boxes = []
    host.look(LIST)

    host.falls("/work", 100 * GIB)
    host.boxes, host.written[2] = [a_box(2)], 0
    for _ in range(5):
        host.look(LIST)

    assert not host.keeper._stopped


def test_a_box_that_has_just_started_is_looked_for_before_another_is_stopped(host):
    host.boxes, host.written[1] = [a_box(1)], 0
    host.look()

    host.boxes = [*host.boxes, a_box(2)]
    host.falls("/work", 99.9 * GIB, by=2)
    host.look()

    assert host.all_stopped()
    assert host.asked == [(2, "disk-low")]
