"""Two machines under one host name: the second is refused, and neither ends what the other's engine runs."""

import subprocess
import sys
import threading
from dataclasses import replace

import pytest
from sqlalchemy import text

from pidispatch.app.hostname import HostNameTaken, wait_for_silence
from pidispatch.domain.health.health import Facts, FaultWord, judge
from pidispatch.domain.health.hostidentity import Contender, Identity
from pidispatch.services.placemark import place_of
from pidispatch.store import forgetting
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.read import history
from pidispatch.store.read.health import row_facts
from tests.attack.liveness.processes import an_environment
from tests.flows.site import Site
from tests.store.builders import HOST, IDENTITY, a_host, a_run, row, value

ANOTHER = Identity("OTHER-ENGINE", "other-boot/run")
COPY = replace(IDENTITY, place="other-boot/run")  # a copied disk: the engine's id with it
REINSTALLED = replace(IDENTITY, engine_id="NEW-ENGINE")
NEIGHBOUR = replace(
    IDENTITY, place="boot/other-run"
)  # two containers on one engine, each with its own run directory
OTHERS = [ANOTHER, COPY, REINSTALLED, NEIGHBOUR]


def silent(database):
    with database.transaction() as connection:
        connection.execute(text("UPDATE workers SET heartbeat_at = now() - interval '31 seconds'"))


def red(database):
    return [fault.word for fault in judge(Facts(HOST, rows=row_facts(database))).red]


def register(database, identity, worker="h1:2"):
    hosts = Hosts(database, host=HOST)
    return hosts.register(worker=worker, pid=2, version="0", capacity=3, identity=identity)


@pytest.mark.parametrize("identity", OTHERS)
def test_a_second_machine_under_a_live_name_is_refused_and_red_until_the_first_is_silent(database, identity):
    installation = a_host(database)

    refused = register(database, identity)

    assert [each.worker for each in refused] == ["h1:1"]
    assert FaultWord.HOST_NAME_TAKEN in red(database)
    assert value(database, "SELECT count(*) FROM workers") == 1
    silent(database)
    assert register(database, identity) == installation
    assert FaultWord.HOST_NAME_TAKEN not in red(database)


@pytest.mark.parametrize("identity", [IDENTITY, replace(IDENTITY, engine_id=None)])
def test_more_workers_of_the_same_machine_are_let_in(database, identity):
    assert register(database, identity) == a_host(database)
    assert FaultWord.HOST_NAME_TAKEN not in red(database)


def test_a_machine_that_left_in_order_makes_room_at_once(database):
    installation = a_host(database)
    Hosts(database, host=HOST).leave("h1:1")

    assert register(database, ANOTHER) == installation


def test_two_that_start_at_the_same_moment_are_not_both_let_in(database):
    a_host(database)
    silent(database)
    begin, answers = threading.Barrier(4), []

    def start(number):
        begin.wait()
        answers.append(register(database, Identity(f"E{number}", f"boot{number}/run"), f"h1:{number + 10}"))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(isinstance(answer, str) for answer in answers) == 1


def heard(*seconds):
    """What is found at each look: how long ago the other was heard, None when it is found no more."""
    looks = list(seconds)

    def others():
        found = looks.pop(0)
        return () if found is None else (Contender("h1:9", ANOTHER, earlier=True, heard=found),)

    return others


def test_a_heartbeat_that_only_grows_old_was_of_before_the_reboot():
    wait_for_silence(HOST, IDENTITY, heard(3.0, 4.0, 29.5, None), sleep=lambda _: None)


def test_a_heartbeat_that_moves_is_another_machines():
    with pytest.raises(
        HostNameTaken, match=r"PI_WORKER_NAME: another machine works under the host name 'h1'"
    ) as caught:
        wait_for_silence(HOST, IDENTITY, heard(3.0, 4.0, 0.2), sleep=lambda _: None)
    assert caught.value.exit_code == 2


def test_a_place_is_one_boot_and_one_run_directory(tmp_path):
    first = place_of(tmp_path / "a")

    assert place_of(tmp_path / "a") == first
    assert place_of(tmp_path / "b") != first
    assert place_of(tmp_path / "b").split("/")[0] == first.split("/")[0]
    assert (tmp_path / "a").stat().st_mode & 0o077 == 0


def test_an_unusable_run_directory_still_has_its_boot(tmp_path):
    (tmp_path / "file").touch()

    assert place_of(tmp_path / "file" / "run").endswith("/-")


class Two:
    """A first machine with a live, paid run, and a second that took the name while the first was silent."""

    def __init__(self, database, identity):
        self.database = database
        self.first = Site(database)
        self.run_id = a_run(database)
        claim, self.container = self.first.started()
        self.first.go(claim)
        silent(database)
        self.second = Site(database, worker="h1:2", identity=identity)
        assert isinstance(self.second.registered, str)

    def both_live(self):
        """The first comes back, and each hears of the other."""
        for site in (self.first, self.second, self.first):
            site.tenure.beat()

    def looks(self):
        for site in (self.first, self.second):
            site.look()
            site.bell.finishes.append(self.run_id)  # both hear each other's bells: they have one queue
            site.hear_finishes()

    def stands(self):
        return row(self.database, "SELECT state, reason FROM runs WHERE id = :id", id=self.run_id)


@pytest.mark.parametrize("identity", OTHERS)
def test_a_live_run_survives_a_second_machine_and_ends_as_what_it_was(database, identity):
    two = Two(database, identity)
    if identity.engine_id != IDENTITY.engine_id:
        two.looks()  # while the first is still silent: another engine is no witness
        assert two.stands() == {"state": "running", "reason": None}
    two.both_live()

    two.looks()

    assert two.stands() == {"state": "running", "reason": None}
    assert two.first.boxes.inspect(two.container) is not None
    assert FaultWord.HOST_NAME_TAKEN in red(database)
    two.first.boxes.finish(two.container, 0)
    two.looks()
    assert two.stands() == {"state": "ended", "reason": "completed"}


def test_of_two_that_meet_the_later_one_admits_nothing_until_the_first_is_gone(database):
    two = Two(database, ANOTHER)
    two.both_live()
    run_id = a_run(database)

    assert two.second.gate.admit() is None
    claim = two.first.gate.admit()
    assert claim is not None
    assert claim.run_id == run_id

    a_run(database)
    Hosts(database, host=HOST).leave("h1:1")
    two.second.tenure.beat()
    assert two.second.gate.admit() is not None


def test_a_copy_that_sees_the_box_as_ended_ends_nothing(database):
    two = Two(database, COPY)
    copied = two.first.boxes.inspect(two.container)
    two.both_live()
    two.second.boxes.inspect = lambda _: replace(copied, status="exited", exit_code=137)
    two.second.boxes.ours = lambda _: [replace(copied, status="exited", exit_code=137)]

    two.looks()

    assert two.stands() == {"state": "running", "reason": None}


def test_a_worker_that_has_not_heard_of_others_for_long_asks_before_it_judges(database):
    two = Two(database, COPY)
    two.second.tenure.beat()
    Hosts(database, host=HOST).beat("h1:1", IDENTITY)
    two.second.seconds = 16.0

    two.second.look()
    two.second.hear_finishes()

    assert two.stands() == {"state": "running", "reason": None}


def test_a_reinstalled_engine_leaves_runs_unreachable_until_they_are_given_up(database):
    site = Site(database)
    run_id = a_run(database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.remove(container)
    site.boxes.engine = site.images.engine = "NEW-ENGINE"

    site.look()
    site.hear_finishes()

    assert value(database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "running"
    assert FaultWord.UNREACHABLE in red(database)
    assert history.run_record(database, run_id).unreachable
    assert forgetting.silent_host(database, HOST).alive
    assert list(forgetting.forget_host(database, HOST, actor="ada@h1")) == [claim.public_id]
    assert value(database, "SELECT reason FROM runs WHERE id = :id", id=run_id) == "lost"
    assert value(database, "SELECT count(*) FROM workers") == 1
    with pytest.raises(forgetting.HostAlive):
        forgetting.silent_host(database, HOST)


@pytest.mark.parametrize("answers", [["NEW", "ENGINE"], ["ENGINE", "NEW"]])
def test_an_engine_that_takes_anothers_place_while_it_is_asked_is_no_witness(site, monkeypatch, answers):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.remove(container)
    monkeypatch.setattr(site.boxes, "engine_id", lambda: answers.pop(0))

    site.look()

    assert site.bell.finishes == []
    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "running"


def test_after_a_reboot_the_same_engine_says_what_became_of_its_boxes(database):
    before = Site(database)
    run_id = a_run(database)
    claim, container = before.started()
    before.go(claim)
    silent(database)
    after = Site(database, worker="h1:2", identity=COPY, boxes=before.boxes)
    after.boxes.finish(container, 137)

    after.look()
    after.hear_finishes()

    assert value(database, "SELECT reason FROM runs WHERE id = :id", id=run_id) == "killed"


def test_a_real_worker_is_refused_with_a_sentence_and_exit_code_2(
    database, database_url, redis_url, tmp_path
):
    hosts = Hosts(database, host=HOST)
    register(database, ANOTHER)
    stop = threading.Event()

    def live():
        while not stop.wait(0.5):
            hosts.beat("h1:2", ANOTHER)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "pidispatch", "worker"],
            env=an_environment(tmp_path, database_url, redis_url),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
    finally:
        stop.set()
        thread.join()

    assert ended.returncode == 2, ended.stderr
    assert "another machine works under the host name 'h1': h1:2 (engine OTHER-ENGINE" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert FaultWord.HOST_NAME_TAKEN in red(database)
