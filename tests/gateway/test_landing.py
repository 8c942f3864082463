"""`GET /budget`: told at once or when a settlement makes it so, with bounds on who waits and on how often is looked."""

import json
import threading
import time

import pytest

from pidispatch.domain.providers.calls import Budget
from pidispatch.entrypoints.scripted import ScriptedProvider
from pidispatch.errors import DatabaseUnavailable
from pidispatch.gateway.door.landing import BudgetWatch, asked, document, landing_of
from tests.gateway.parts import UnixClient, chat
from tests.support.patience import slowness

EARLY = Budget(micros=100_000, cap_micros=2_000_000, tokens=10, cap_tokens=None, turns=1, cap_turns=30)
LATE = Budget(micros=1_660_000, cap_micros=2_000_000, tokens=10, cap_tokens=None, turns=1, cap_turns=30)


class Ledger:
    """What the database says now, and how often it was asked."""

    def __init__(self, budget=EARLY):
        self.budget, self.reads = budget, 0

    def __call__(self):
        self.reads += 1
        if isinstance(self.budget, Exception):
            raise self.budget
        return self.budget


class Asking:
    """Somebody who asks in a thread of its own; `answer` once it came, and how long it took."""

    def __init__(self, watch, wait=20.0, *, told=False):
        self.answer, self.seconds = None, None
        self._thread = threading.Thread(target=self._ask, args=(watch, wait, told), daemon=True)
        self._thread.start()

    def _ask(self, watch, wait, told):
        begun = time.monotonic()
        self.answer = watch.ask(wait=wait, told=told)
        self.seconds = time.monotonic() - begun

    def ended(self, seconds=10.0):
        self._thread.join(seconds)
        return not self._thread.is_alive()


def waiting(watch, count):
    deadline = time.monotonic() + 10
    while watch._waiting < count:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_where_landing_is_due_the_answer_comes_at_once():
    watch = BudgetWatch(Ledger(LATE))

    asking = Asking(watch)

    assert asking.ended(2.0)
    assert document(asking.answer) == {
        "v": 1, "share": 0.83, "of": "cost", "landing": True, "micros": 1_660_000, "cap_micros": 2_000_000,
        "tokens": 10, "cap_tokens": None, "turns": 1, "cap_turns": 30,
    }  # fmt: skip


def test_a_settlement_that_makes_it_due_wakes_everybody_who_waits():
    ledger = Ledger()
    watch = BudgetWatch(ledger, again=0.05)
    asking = [Asking(watch) for _ in range(3)]
    waiting(watch, 3)

    watch.settled()
    time.sleep(0.2)
    assert not any(each.ended(0.0) for each in asking)
    ledger.budget = LATE
    watch.settled()

    assert all(each.ended() for each in asking)
    assert {each.answer for each in asking} == {LATE}


def test_who_waits_in_vain_is_answered_after_the_time_it_named_and_looks_once():
    ledger = Ledger()
    watch = BudgetWatch(ledger, again=0.05)

    asking = Asking(watch, 0.4)

    assert asking.ended()
    assert asking.answer == EARLY
    assert 0.35 < asking.seconds < 5 * slowness()
    assert ledger.reads == 1


def test_who_was_told_waits_on():
    asking = Asking(BudgetWatch(Ledger(LATE)), 0.3, told=True)

    assert asking.ended()
    assert asking.seconds > 0.25


def test_however_many_ask_and_however_much_settles_the_database_is_asked_once_a_second():
    ledger = Ledger()
    watch = BudgetWatch(ledger, again=0.5)
    end = time.monotonic() + 1.2
    asking = Asking(watch, 1.2)
    while time.monotonic() < end:
        watch.ask(wait=0, told=False)
        watch.settled()
        time.sleep(0.001)

    assert asking.ended()
    assert ledger.reads <= 4


def test_one_too_many_is_answered_at_once():
    watch = BudgetWatch(Ledger(), most=2)
    patient = [Asking(watch), Asking(watch)]
    waiting(watch, 2)

    third = Asking(watch)

    assert third.ended(2.0)
    assert third.answer == EARLY
    watch.close()
    assert all(each.ended() for each in patient)


def test_a_database_that_is_away_is_asked_once_a_second_too():
    ledger = Ledger(DatabaseUnavailable("down"))
    watch = BudgetWatch(ledger, again=60)

    for _ in range(5):
        with pytest.raises(DatabaseUnavailable):
            watch.ask(wait=10, told=False)

    assert ledger.reads == 1


def test_what_calls_under_way_hold_is_not_used_yet():
    held = Budget(
        micros=1_900_000, cap_micros=2_000_000, tokens=90, cap_tokens=100, turns=0, cap_turns=30,
        held_micros=1_000_000, held_tokens=50,
    )  # fmt: skip

    assert not landing_of(held).due
    assert document(held)["micros"] == 900_000
    assert document(held)["tokens"] == 40


@pytest.mark.parametrize(
    ("query", "means"),
    [
        ("", (0.0, False)),
        ("wait=30&seen=0", (30.0, False)),
        ("seen=1&wait=5", (5.0, True)),
        ("wait=-1", (0.0, False)),
        ("wait=1e9&seen=yes", (0.0, False)),
        ("wait=٣", (0.0, False)),
        ("wait=" + "9" * 300, (0.0, False)),
        ("&&==&wait", (0.0, False)),
    ],
)
def test_a_malformed_question_waits_for_nothing(query, means):
    assert asked(query) == means


def test_a_box_is_told_over_its_socket_once_a_call_of_it_settles(make_house):
    with ScriptedProvider() as provider:
        told_after_a_call(make_house({"scripted": f"{provider.url}/v1"}))


def told_after_a_call(house):
    path = house.open()
    house.ledger.budgets[7] = EARLY
    asker, caller = UnixClient(path), UnixClient(path)
    house.clients += [asker, caller]
    assert asker.ask("GET", "/budget")[1]["landing"] is False
    asker.request("GET", "/budget?wait=40&seen=0")

    house.ledger.budgets[7] = LATE
    begun = time.monotonic()
    caller.ask("POST", "/v1/chat/completions", chat())

    response = asker.getresponse()
    assert (response.status, json.loads(response.read())["share"]) == (200, 0.83)
    assert time.monotonic() - begun < 10 * slowness()


def test_a_closing_door_waits_for_nobody_who_waits(make_house):
    house = make_house(drain_seconds=30.0)
    client = house.client()
    house.ledger.budgets[7] = EARLY
    client.request("GET", "/budget?wait=55&seen=0")
    deadline = time.monotonic() + 10
    while house.ledger.reads == 0:
        assert time.monotonic() < deadline
        time.sleep(0.005)

    begun = time.monotonic()
    house.doors.close(7)

    assert time.monotonic() - begun < 10 * slowness()
    assert client.getresponse().status == 200


def test_a_database_that_is_away_is_said(make_house):
    house = make_house()
    client = house.client()
    house.switch.away = True

    assert client.ask("GET", "/budget?wait=30")[0] == 503
