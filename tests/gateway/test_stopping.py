"""The watcher that cuts calls: what it leaves alone, and what it survives."""

import time

import pytest

from pidispatch.entrypoints.scripted import ScriptedProvider
from pidispatch.gateway.door.doors import Stopper
from tests.gateway.fakes import FakeStops
from tests.gateway.parts import ManualUpstream, UnixClient, chat, raw_client
from tests.support.patience import until

PATH = "/v1/chat/completions"


@pytest.fixture
def manual():
    upstream = ManualUpstream()
    yield upstream
    upstream.close()


class Watched:
    """The doors, as a watcher may use them."""

    def __init__(self):
        self.cut = []

    def cut_calls(self, run_id):
        self.cut.append(run_id)


def test_a_call_that_waits_for_its_answer_is_cut_as_well(make_house, manual):
    house = make_house({"scripted": manual.url})
    client = house.client()
    client.request("POST", PATH, b'{"model": "m"}')
    manual.read_request()

    house.gateway._doors.cut_calls(7)

    assert manual.was_hung_up()
    assert client.getresponse().status == 502
    [end] = house.ledger.settled()
    assert (end.stop_reason, end.measured) == ("aborted", False)


def test_a_call_that_was_cut_before_it_was_sent_costs_nothing_and_leaves_nobody_waiting(make_house):
    with ScriptedProvider() as provider:
        house = make_house({"scripted": f"{provider.url}/v1"})
        opens = house.ledger.open_call

        def cut_meanwhile(*args, **more):
            answer = opens(*args, **more)
            house.gateway._doors.cut_calls(7)
            return answer

        house.ledger.open_call = cut_meanwhile
        sock = raw_client(house.open())
        sock.sendall(
            b'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 14\r\n\r\n{"model": "m"}'
        )

        assert sock.recv(100) == b""
        [end] = house.ledger.settled()
        assert (end.stop_reason, end.tokens_in, provider.asked) == ("aborted", 0, [])
        house.ledger.open_call = opens
        later = UnixClient(house.open())
        assert later.ask("POST", PATH, chat())[0] == 200
        later.close()
        sock.close()


def test_cutting_a_run_without_calls_or_without_a_door_does_nothing(make_house):
    house = make_house()
    house.open()

    house.gateway._doors.cut_calls(7)
    house.gateway._doors.cut_calls(12345)


def test_the_watcher_goes_on_after_a_database_that_was_away_and_after_a_fault(make_house):
    house = make_house()
    house.open()
    house.tickets.runs[7].stopped = True
    stops, doors = FakeStops(house.tickets), Watched()
    faults = [ValueError("a fault of ours")]
    looks = stops.stopped
    stops.stopped = lambda host: looks(host) if not faults else (_ for _ in ()).throw(faults.pop())
    house.switch.away = True
    stopper = Stopper(stops, doors, "here", pause=0.01)

    stopper.start()
    until(lambda: not faults)
    time.sleep(0.05)
    assert doors.cut == []
    house.switch.away = False

    until(lambda: doors.cut)
    stopper.close()
    assert set(doors.cut) == {7}
