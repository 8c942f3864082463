"""Watching a real engine on a bad day: silence, cut streams, a child that holds on; each run gets its right record."""

import json
import secrets
import threading
import time

import pytest
from structlog.testing import capture_logs

from pidispatch.domain.box.sandbox import (
    LABEL_ATTEMPT,
    LABEL_INSTALLATION,
    LABEL_ROLE,
    LABEL_RUN,
    ROLE_JOB,
    box_name,
)
from pidispatch.errors import EngineUnavailable
from pidispatch.flows.finish import CAPABILITIES_LABEL
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from pidispatch.upkeep.reconciler import beat, watch_deaths
from tests.flows.site import Site
from tests.store.builders import a_run, assert_ledger_is_exact, row, value
from tests.support.boxes import a_box, an_installation, image_or_skip
from tests.support.patience import eventually, slowness
from tests.support.proxies import cutting_proxy

RECORD = "SELECT outcome, reason, exit_code, reported ->> 'reason' AS said FROM runs WHERE id = :id"
COMPLETED = {"outcome": "completed", "reason": "completed", "exit_code": 0, "said": "all-done"}
EXIT_LINE = json.dumps({"event": "exit", "jobId": "x", "code": 0, "reason": "all-done", "turns": 1})
SAY_SO = f"printf '\\n%s\\n' '{EXIT_LINE}'"


@pytest.fixture
def proxy():
    with cutting_proxy() as (proxy, address):
        proxy.address = address
        yield proxy


@pytest.fixture
def site(database, proxy):
    """A site on the machine's engine, through the proxy, whose client gives up after a second without an answer."""
    engine = Engine(proxy.address, answer_seconds=1)
    boxes = DockerBoxes(engine)
    with an_installation(boxes) as label:
        site = Site(database, boxes=boxes, installation=label)
        site.image = image_or_skip(engine)
        yield site
    engine.close()


def at_work(site, script):
    """A run that has its go, in a box that runs `script`; returns the run and its container."""
    run_id = a_run(site.database)
    claim = site.runs.preparing(site.gate.admit()).claim
    labels = {
        LABEL_INSTALLATION: site.installation,
        LABEL_ROLE: ROLE_JOB,
        LABEL_RUN: str(run_id),
        LABEL_ATTEMPT: str(claim.attempt),
        CAPABILITIES_LABEL: "",  # it promises no report
    }
    name = box_name(site.installation, run_id, claim.attempt)
    spec = a_box(site.installation, site.image, "sh", "-c", script, name=name, labels=labels)
    container = site.boxes.create(spec)
    claim = site.runs.boxed(claim, container_id=container, name=name)
    site.boxes.start(container)
    site.go(claim)
    return run_id, container


def is_over(site, run_id):
    """Look and hear, as the threads of a worker would; what the engine broke off is taken up again."""
    try:
        site.look()
        site.hear_finishes()
    except EngineUnavailable:
        site.reconciler._rung.clear()  # it went unheard; ten seconds later it is rung again
    return value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "ended"


@pytest.fixture
def watched(site):
    """The thread that listens for deaths; yields what it wakes."""
    stop, wake = threading.Event(), threading.Event()

    def watch():
        watch_deaths(site.boxes, site.installation, stop, wake)
        site.boxes._engine.close()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    yield wake
    stop.set()
    site.boxes.remove(_one_that_dies(site))  # the listener notices its stop at the next death
    thread.join(10)
    assert not thread.is_alive()


def _one_that_dies(site):
    spec = a_box(site.installation, site.image, "true")
    container = site.boxes.create(spec)
    site.boxes.start(container)
    eventually(lambda: site.boxes.inspect(container).ended)
    return container


@pytest.mark.docker
def test_a_box_that_is_quiet_for_longer_than_the_client_waits_is_not_given_up(site, watched):
    run_id, _ = at_work(site, f"sleep 4; {SAY_SO}")
    watched.clear()

    with capture_logs() as logs:
        began = time.monotonic()
        while time.monotonic() - began < 3:
            assert not is_over(site, run_id)
            time.sleep(0.2)
        assert watched.wait(5)
        assert eventually(lambda: is_over(site, run_id), within=10)

    assert row(site.database, RECORD, id=run_id) == COMPLETED
    assert not [line for line in logs if line["event"] == "engine_unreachable"]  # the stream of deaths held


@pytest.mark.docker
def test_a_reader_of_a_quiet_box_gets_what_it_says_at_last(site):
    _, container = at_work(site, "echo one; sleep 3; echo two")

    assert b"".join(site.boxes.output(container, follow=True)) == b"one\ntwo\n"


@pytest.mark.docker
def test_a_stop_takes_its_whole_grace_however_soon_the_client_gives_up(site):
    _, container = at_work(site, "trap '' TERM; while :; do sleep 0.1; done")

    site.boxes.stop(container, grace=3)

    assert site.boxes.inspect(container).exit_code == 137


@pytest.mark.docker
def test_a_run_whose_streams_are_cut_while_it_goes_on_ends_with_its_right_record(site, proxy, watched):
    run_id, container = at_work(site, f"echo hello; sleep 5; {SAY_SO}")
    follower = site.boxes.output(container, follow=True)
    assert next(follower) == b"hello\n"

    assert proxy.cut_all() >= 4  # both ends of the log's stream, and of the deaths'
    with pytest.raises(EngineUnavailable):
        next(follower)

    assert not is_over(site, run_id)
    watched.clear()
    assert watched.wait(10)  # it listens again, by itself
    assert eventually(lambda: is_over(site, run_id), within=10)
    assert row(site.database, RECORD, id=run_id) == COMPLETED
    assert_ledger_is_exact(site.database)
    assert site.boxes.inspect(container) is None


@pytest.mark.docker
@pytest.mark.parametrize("after", [0, 200, 3000])
def test_an_exit_line_is_read_in_the_end_however_often_its_stream_is_cut(site, proxy, after):
    run_id, container = at_work(site, f"head -c 9000 /dev/zero | tr '\\0' x; {SAY_SO}")
    assert eventually(lambda: site.boxes.inspect(container).ended)
    proxy.cut_answers(f"/containers/{container}/logs", times=2, after=after)

    assert eventually(lambda: is_over(site, run_id), within=10)

    assert proxy.cut == 2
    assert row(site.database, RECORD, id=run_id) == COMPLETED
    assert value(site.database, "SELECT count(*) FROM run_attempts WHERE run_id = :id", id=run_id) == 1


@pytest.mark.docker
def test_children_that_keep_the_output_open_do_not_hold_up_the_end(site):
    held = "sleep 300 & setsid sleep 300 & (trap '' TERM HUP; setsid sleep 300) &"
    run_id, container = at_work(site, f"{held} {SAY_SO}; exit 0")
    began = time.monotonic()

    assert eventually(lambda: is_over(site, run_id), within=10)

    assert time.monotonic() - began < 5 * slowness()
    assert row(site.database, RECORD, id=run_id) == COMPLETED
    assert site.boxes.inspect(container) is None


class Breaking:
    """The first call breaks in a way nobody thought of, the later ones go well."""

    def __init__(self):
        self.calls = []
        self.again = threading.Event()

    def __call__(self, *asked):
        self.calls.append(asked)
        if len(self.calls) == 1:
            raise RuntimeError("nobody thought of this")
        self.again.set()
        return iter([secrets.token_hex(32)])


def test_the_sign_of_life_survives_an_error_nobody_thought_of():
    hosts, stop = Breaking(), threading.Event()
    hosts.beat = hosts
    thread = threading.Thread(target=beat, args=(hosts, stop, 0.01), daemon=True)
    thread.start()

    assert hosts.again.wait(5)

    stop.set()
    thread.join(5)


def test_listening_for_deaths_survives_an_error_nobody_thought_of(monkeypatch):
    monkeypatch.setattr("pidispatch.upkeep.reconciler.PERIOD", 0.01)
    boxes, stop, wake = Breaking(), threading.Event(), threading.Event()
    boxes.deaths = boxes
    thread = threading.Thread(target=watch_deaths, args=(boxes, "0badcafe", stop, wake), daemon=True)
    thread.start()

    assert wake.wait(5)

    stop.set()
    thread.join(5)
