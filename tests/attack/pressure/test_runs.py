"""One run that meets nothing but refusals, and the others, which go on."""

import threading

import pytest

from pidispatch.gateway.calls.pressure import Pressure
from tests.attack.pressure.replies import said, stream, whole
from tests.gateway.parts import UnixClient, chat

PATH = "/v1/chat/completions"
SLOW = {"error": {"type": "rate_limit_error", "message": "slow down"}}
BAD, GOOD = "used-up", "good"


class Hostile:
    """Many calls at once of one run, again and again until it is stopped."""

    def __init__(self, path, body, threads=8):
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._go, args=(path, body), daemon=True) for _ in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def _go(self, path, body):
        while not self._stop.is_set():
            client = UnixClient(path, timeout=30)
            try:
                client.ask("POST", PATH, body)
            except OSError:
                pass
            finally:
                client.close()

    def stop(self):
        self._stop.set()


def house_of(make_house, provider, hold=1.0):
    pressure = Pressure(hold_seconds=hold, chance=lambda: 0.0)
    house = make_house({"scripted": f"{provider.url}/v1"}, pressure=pressure)
    house.pressure = pressure
    return house


def wait_for(condition):
    for _ in range(4000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it never came")


@pytest.mark.parametrize("fields", [("retry-after: 1000",), ()])
def test_a_model_that_is_used_up_shuts_no_other(make_house, replies, fields):
    provider = replies(by_model=lambda model: stream(*said()) if model == GOOD else whole(429, SLOW, *fields))
    house = house_of(make_house, provider)
    hostile = Hostile(house.open(1), chat(BAD))
    try:
        wait_for(lambda: BAD in provider.asked)
        answers = [house.client(2).ask("POST", PATH, chat(GOOD))[0] for _ in range(10)]
    finally:
        hostile.stop()
        house.pressure.stop()

    # Each was answered by its first request: none had to wait for a turn.
    assert answers == [200] * 10
    assert provider.asked.count(GOOD) == 10
    assert f"scripted/{GOOD}" not in house.doors.busy_providers()


def test_many_models_of_one_run_shut_neither_another_nor_the_account(make_house, replies):
    provider = replies(
        by_model=lambda model: stream(*said()) if model == GOOD else whole(429, SLOW, "retry-after: 1000")
    )
    house = house_of(make_house, provider)

    for number in range(12):
        assert house.client(1).ask("POST", PATH, chat(f"{BAD}-{number}"))[0] == 429

    assert house.client(2).ask("POST", PATH, chat(GOOD))[0] == 200
    assert "scripted" not in house.doors.busy_providers()


def test_a_run_refused_for_what_it_asks_waits_alone(make_house, replies):
    """The same model; what the hostile run asks is refused each time (it is told apart by its size here)."""
    answers = iter(())
    provider = replies(by_model=lambda _model: next(answers))
    refused, good = whole(429, SLOW, "retry-after: 1000"), stream(*said())
    house = house_of(make_house, provider, hold=30.0)
    answers = iter([refused, *[good] * 9])

    first = house.client(1).ask("POST", PATH, chat(GOOD))[
        0
    ]  # closed for longer than pi would try: told at once
    others = [house.client(2).ask("POST", PATH, chat(GOOD))[0] for _ in range(4)]
    again = house.client(1).ask("POST", PATH, chat(GOOD))[0]

    assert (first, others, again) == (429, [200] * 4, 429)
    assert len(provider.asked) == 5
    assert house.doors.provider("scripted", GOOD, 2).busy_until is None
    assert house.doors.provider("scripted", GOOD, 1).busy_until is not None


def test_the_runs_that_wait_for_a_slot_take_turns():
    """One run's hundred calls came first; another's one call is not behind them."""
    from pidispatch.domain.providers.pressure import Heard
    from pidispatch.gateway.calls.pressure import Asker, WaitingCall

    pressure = Pressure(hold_seconds=100.0)
    holder = WaitingCall(0, Asker("p", "m", 1, slots=1))
    leave = pressure.wait(holder, deadline=1e9, given_up=lambda: False)
    served = []

    def wait(waiter):
        given = pressure.wait(waiter, deadline=1e9, given_up=lambda: False)
        served.append(waiter.asker.run)
        pressure.report(waiter.asker, given, Heard(), over=True)

    waiters = [WaitingCall(number, Asker("p", "m", 1, slots=1)) for number in range(1, 30)]
    waiters.append(WaitingCall(30, Asker("p", "m", 2, slots=1)))
    threads = [threading.Thread(target=wait, args=(waiter,), daemon=True) for waiter in waiters]
    for thread in threads:
        thread.start()
    wait_for(lambda: len(pressure._provider("p").line) == 30)

    pressure.report(holder.asker, leave, Heard(), over=True)

    for thread in threads:
        thread.join(20)
    assert served.index(2) <= 1
