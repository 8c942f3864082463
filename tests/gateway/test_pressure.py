"""A provider that says it is busy: whose calls wait, for how long, and what becomes of them."""

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from pidispatch.domain.providers import lanes
from pidispatch.domain.providers.lanes import Leave
from pidispatch.domain.providers.pressure import Busy, Heard
from pidispatch.entrypoints.scripted import ScriptedProvider
from pidispatch.entrypoints.scripted.scenarios import Failure
from pidispatch.gateway.calls.pressure import Asker, Pressure, WaitingCall
from pidispatch.gateway.calls.refusal import OURS
from tests.gateway.parts import UnixClient, chat, raw_client

PATH = "/v1/chat/completions"
RAW = json.dumps(chat()).encode()
REQUEST = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (PATH.encode(), len(RAW), RAW)


def failure(status=429, **fields):
    return Failure(
        status, "rate_limit_error", "slow down", tuple((k.replace("_", "-"), v) for k, v in fields.items())
    )


class Upstream(ScriptedProvider):
    """Answers the first calls as told, notes when each came, and holds calls while `gate` is clear."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals: list[Failure] = []
        self.came: list[float] = []
        self.gate = threading.Event()
        self.gate.set()
        self.together: threading.Barrier | None = None
        self._mutex = threading.Lock()

    def choose(self, name, step):
        with self._mutex:
            self.came.append(time.monotonic())
            answer = self.refusals.pop(0) if self.refusals else None
        if answer is not None:
            if self.together is not None:
                self.together.wait(20)
            return answer
        assert self.gate.wait(20)
        return super().choose(name, step)

    def wait_for(self, count):
        deadline = time.monotonic() + 20
        while len(self.came) < count:
            assert time.monotonic() < deadline, f"only {len(self.came)} of {count} calls came"
            time.sleep(0.005)


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as provider:
        yield provider


@pytest.fixture
def house_with(make_house, upstream):
    """A gateway before the upstream, whose calls are held so long."""

    def make(hold=20.0):
        pressure = Pressure(hold_seconds=hold, chance=lambda: 0.0)
        house = make_house({"scripted": f"{upstream.url}/v1"}, pressure=pressure)
        house.pressure = pressure
        return house

    return make


class Callers:
    """Calls at the same moment, of several runs, and their answers."""

    def __init__(self, paths, each=1):
        self.answers: list[tuple[int, object]] = []
        self._threads = [
            threading.Thread(target=self._ask, args=(path,)) for path in paths for _ in range(each)
        ]
        for thread in self._threads:
            thread.start()

    def _ask(self, path):
        client = UnixClient(path, timeout=30)
        self.answers.append(client.ask("POST", PATH, chat()))
        client.close()

    def join(self):
        for thread in self._threads:
            thread.join(30)
        return [status for status, _ in self.answers]


def test_one_refusal_holds_all_runs_then_one_probe_goes_then_all(house_with, upstream):
    house = house_with()
    upstream.refusals = [failure(retry_after="1")]
    paths = [house.open(run_id) for run_id in (1, 2, 3, 4)]
    first = Callers(paths[:1])
    upstream.wait_for(1)
    while house.pressure.busy_until("scripted", "happy") is None:
        time.sleep(0.005)
    upstream.gate.clear()

    rest = Callers(paths, each=5)
    upstream.wait_for(2)
    time.sleep(0.3)
    came_before_the_probe_was_answered = list(upstream.came)
    upstream.gate.set()

    assert first.join() == [200]
    assert rest.join() == [200] * 20
    refused_at, probed_at = came_before_the_probe_was_answered
    assert probed_at - refused_at >= 1.0
    assert len(upstream.came) == 22
    assert [end.status for end in house.ledger.settled(21)] == [200] * 21


def test_calls_that_are_refused_together_are_all_sent_again_and_none_fails(house_with, upstream):
    house = house_with()
    upstream.refusals = [failure(retry_after_ms="200")] * 12
    upstream.together = threading.Barrier(12)
    paths = [house.open(run_id) for run_id in (1, 2, 3)]

    with capture_logs() as logs:
        statuses = Callers(paths, each=4).join()

    assert statuses == [200] * 12
    told = [entry["event"] for entry in logs if entry["event"].startswith("provider_")]
    assert told == ["provider_busy", "provider_free"]
    busy = next(entry for entry in logs if entry["event"] == "provider_busy")
    assert (busy["provider"], busy["why"], busy["asked_seconds"]) == ("scripted", 429, 0.2)
    assert busy["until"]


@pytest.mark.parametrize("status", [429, 529])
def test_what_the_box_sees_in_the_end_is_the_good_answer_byte_for_byte(house_with, upstream, status):
    house = house_with()
    untroubled = house.client(1).ask("POST", PATH, chat())
    upstream.refusals = [failure(status), failure(status)]

    answer = house.client(2).ask("POST", PATH, chat())

    assert answer[0] == 200
    assert answer[1].replace(b"chatcmpl-4", b"chatcmpl-1").replace(b"call_4", b"call_1") == untroubled[1]
    [_, end] = house.ledger.settled(2)
    assert (end.status, end.stop_reason, end.tokens_in) == (200, "tool_use", 1000)


def test_a_call_is_held_up_to_the_bound_and_then_told_what_the_provider_said(house_with, upstream):
    house = house_with(hold=0.6)
    upstream.refusals = [failure(retry_after="1")]
    began = time.monotonic()

    status, answer = house.client(1).ask("POST", PATH, chat())
    other, _ = house.client(2).ask("POST", PATH, chat())

    assert (status, other) == (429, 200)
    assert answer == failure().body()
    assert time.monotonic() - began > 0.5
    [refused, good] = house.ledger.settled(2)
    assert (refused.status, refused.stop_reason, refused.tokens_in, refused.measured) == (
        429,
        "error",
        0,
        True,
    )
    assert good.status == 200


def test_a_window_that_is_closed_for_long_is_told_at_once_and_its_run_does_not_knock_again(
    house_with, upstream
):
    house = house_with()
    upstream.refusals = [failure(529, retry_after="3600")]

    answers = [house.client(1).ask("POST", PATH, chat()) for _ in range(3)]

    assert answers == [(529, failure().body())] * 3
    assert len(upstream.came) == 1
    now = house.gateway._clock()
    own = house.doors.provider("scripted", "happy", 1).busy_until
    assert 3500 < (own - now).total_seconds() <= 3600
    # Nobody else was refused: others wait for a moment, and another model for nothing.
    assert 0 < (house.doors.provider("scripted", "happy", 2).busy_until - now).total_seconds() <= 10
    assert house.doors.provider("scripted", "other").busy_until is None
    assert list(house.doors.busy_providers()) == ["scripted/happy"]
    assert [end.status for end in house.ledger.settled(3)] == [529] * 3


def test_what_two_runs_were_told_holds_all(house_with, upstream, monkeypatch):
    monkeypatch.setattr(lanes, "ONE_WORD", 0.0)
    house = house_with()
    upstream.refusals = [failure(retry_after="3600")] * 2

    answers = [house.client(run_id).ask("POST", PATH, chat())[0] for run_id in (1, 2, 3, 3)]

    assert answers == [429] * 4
    assert len(upstream.came) == 2
    assert list(house.doors.busy_providers()) == ["scripted/happy"]


def test_an_answer_that_speaks_of_the_account_holds_all_its_models(house_with, upstream):
    house = house_with()
    told = Failure(429, "rate_limit_error", "Your account has too many requests", (("retry-after", "3600"),))
    upstream.refusals = [told]

    answers = [
        house.client(run_id).ask("POST", PATH, chat(model))[0]
        for run_id, model in ((1, "happy"), (2, "happy"), (3, "refuse"))
    ]

    assert answers == [429] * 3
    assert len(upstream.came) == 1
    assert list(house.doors.busy_providers()) == ["scripted"]


def test_an_account_that_has_run_dry_is_no_pressure(house_with, upstream):
    house = house_with()
    upstream.refusals = [Failure(429, "insufficient_quota", "You exceeded your current quota")]

    status, answer = house.client().ask("POST", PATH, chat())

    assert (status, answer["error"]["type"]) == (429, "insufficient_quota")
    assert house.doors.provider("scripted", "happy").busy_until is None
    assert len(upstream.came) == 1


@pytest.mark.parametrize("status", [500, 503])
def test_other_failures_are_passed_on_as_they_are(house_with, upstream, status):
    house = house_with()
    upstream.refusals = [failure(status)]

    assert house.client().ask("POST", PATH, chat()) == (status, failure().body())
    assert house.doors.busy_providers() == {}


def test_a_held_call_is_given_up_when_its_client_leaves(house_with, upstream):
    house = house_with()
    upstream.refusals = [failure(retry_after="30")]
    sock = raw_client(house.open())
    sock.sendall(REQUEST)
    upstream.wait_for(1)
    while house.pressure.busy_until("scripted", "happy") is None:
        time.sleep(0.005)

    sock.close()

    [end] = house.ledger.settled(seconds=2.0)
    assert (end.status, end.tokens_in, end.measured) == (429, 0, True)
    assert len(upstream.came) == 1


def test_a_held_call_does_not_keep_the_gateway_from_ending(house_with, upstream):
    house = house_with()
    upstream.refusals = [failure(retry_after="30")]
    sock = raw_client(house.open())
    sock.sendall(REQUEST)
    while house.pressure.busy_until("scripted", "happy") is None:
        time.sleep(0.005)

    house.pressure.stop()

    assert sock.recv(100) == b""
    assert [end.status for end in house.ledger.settled(seconds=2.0)] == [429]
    sock.close()


def test_another_provider_is_not_held(make_house, upstream):
    house = make_house(
        {"scripted": f"{upstream.url}/v1", "anthropic": upstream.url}, pressure=Pressure(hold_seconds=0.2)
    )
    upstream.refusals = [failure(retry_after="60")]
    assert house.client(1).ask("POST", PATH, chat())[0] == 429

    assert house.client(2, "anthropic").ask("POST", "/v1/messages", chat())[0] == 200


def test_no_more_calls_than_slots_are_under_way(make_house, upstream):
    house = make_house({"scripted": f"{upstream.url}/v1"})
    all_of_them = house.gateway._doors._providers._all
    all_of_them["scripted"] = replace(all_of_them["scripted"], slots=2)
    upstream.gate.clear()

    callers = Callers([house.open(run_id) for run_id in (1, 2, 3)], each=2)
    upstream.wait_for(2)
    time.sleep(0.2)
    under_way = len(upstream.came)
    upstream.gate.set()

    assert callers.join() == [200] * 6
    assert under_way == 2


def test_without_a_slot_for_too_long_a_call_is_told_so_by_us(make_house, upstream):
    house = make_house({"scripted": f"{upstream.url}/v1"}, pressure=Pressure(hold_seconds=0.3))
    all_of_them = house.gateway._doors._providers._all
    all_of_them["scripted"] = replace(all_of_them["scripted"], slots=1)
    upstream.gate.clear()
    first = Callers([house.open(1)])
    upstream.wait_for(1)

    status, answer = house.client(2).ask("POST", PATH, chat())
    upstream.gate.set()

    assert (status, answer["error"]["type"]) == (429, "rate_limit_error")
    assert answer["error"]["message"].startswith("pidispatch: ")
    assert first.join() == [200]


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Line:
    """Waiters of one key on a clock of the test's own."""

    def __init__(self):
        self.clock = Clock()
        self.pressure = Pressure(hold_seconds=100.0, clock=self.clock, chance=lambda: 0.0)
        self.served: list[int] = []
        self.threads: list[threading.Thread] = []

    def busy(self, pause):
        self.pressure.report(
            Asker("p", "m", 1), Leave(), Busy(pause), refusal=replace(OURS, busy=Busy(pause))
        )

    def join(self, number, given_up=lambda: False, slots=None, run=1):
        waiter = WaitingCall(number, Asker("p", "m", run, slots))

        def wait():
            leave = self.pressure.wait(waiter, deadline=1000.0, given_up=given_up)
            if leave is not None:
                self.served.append(number)
                self.pressure.report(waiter.asker, leave, Heard(), over=True)

        before = self.length()
        thread = threading.Thread(target=wait, daemon=True)
        thread.start()
        self.threads.append(thread)
        while self.length() == before and thread.is_alive():
            time.sleep(0.002)
        return waiter

    def length(self):
        return len(self.pressure._provider("p").line)

    def finish(self):
        for thread in self.threads:
            thread.join(10)
            assert not thread.is_alive()


def test_waiters_go_in_the_order_in_which_they_came_however_they_queued_up():
    line = Line()
    line.busy(10.0)
    waiters = [line.join(number) for number in (5, 1, 4, 2, 3)]
    first = next(waiter for waiter in waiters if waiter.number == 1)

    line.clock.now = 10.0
    first.woken.set()

    line.finish()
    assert line.served[0] == 1
    assert sorted(line.served) == [1, 2, 3, 4, 5]


def test_each_in_line_watches_the_time_itself_when_the_first_has_gone():
    line = Line()
    line.busy(10.0)
    gone = threading.Event()
    first = line.join(1, gone.is_set)
    second = line.join(2)
    gone.set()
    first.woken.set()
    line.threads[0].join(10)

    line.clock.now = 9.95  # the second looks again, and sleeps for the rest of the pause
    second.woken.set()
    while second.woken.is_set():
        time.sleep(0.002)
    line.clock.now = 10.0

    line.finish()
    assert line.served == [2]
