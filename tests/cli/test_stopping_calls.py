"""`pause --now`: within a second no run spends anything, whatever workers do."""

import json
import shutil
import tempfile
import time
from pathlib import Path

import pytest

from pidispatch.gateway.client import ControlDoors
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Providers
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresStops, PostgresTickets
from pidispatch.store.runs.transitions import Runs
from tests.cli.conftest import HOST
from tests.cli.lives import begin, end
from tests.gateway.parts import KEY, ManualUpstream, UnixClient, chat, raw_client, read_until
from tests.store.builders import a_run, row, value
from tests.support.patience import slowness

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PATH = "/v1/chat/completions"


class House:
    """A gateway on the real database, and runs at work behind its doors; there is no worker at all."""

    def __init__(self, database, run_dir, upstream):
        self.database, self.run_dir = database, run_dir
        self.gateway = Gateway(
            run_dir,
            run_dir / "secret",
            HOST,
            tickets=PostgresTickets(database, timeout=600),
            ledger=PostgresCallLedger(database),
            stops=PostgresStops(database),
            providers=Providers(keys={"SCRIPTED_API_KEY": KEY}, upstreams={"scripted": upstream.url}),
            clock=database.now,
            drain_seconds=0.2,
            stop_seconds=0.2,
        )
        self.gateway.start()

    def a_run(self):
        run_id = a_run(self.database)
        begin(self.database, f"{run_id:064x}")
        return run_id, Path(ControlDoors(self.run_dir / "gateway.sock").open(run_id)) / "s"


@pytest.fixture
def upstream():
    upstream = ManualUpstream()
    yield upstream
    upstream.close()


@pytest.fixture
def house(database, upstream):
    run_dir = Path(tempfile.mkdtemp(prefix="gw"))
    house = House(database, run_dir, upstream)
    yield house
    house.gateway.stop()
    shutil.rmtree(run_dir, ignore_errors=True)


def a_stream(door, upstream):
    """A model call whose answer has begun and goes on."""
    body = json.dumps(chat()).encode()
    sock = raw_client(door)
    sock.sendall(
        b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (PATH.encode(), len(body), body)
    )
    upstream.read_request()
    upstream.send(HEAD)
    upstream.chunk(b'data: {"choices":[{"delta":{"content":"abcdef"}}]}\n\n')
    read_until(sock, b"abcdef")
    return sock


def settled(database, within=5.0):
    stop = time.monotonic() + within
    while value(database, "SELECT count(*) FROM provider_calls WHERE state = 'held'"):
        assert time.monotonic() < stop
        time.sleep(0.01)
    return row(
        database,
        "SELECT state, stop_reason, tokens_out > 0 AS counted FROM provider_calls ORDER BY id LIMIT 1",
    )


def test_a_long_answer_is_cut_and_a_new_call_is_refused_within_a_second(
    pidispatch, database, house, upstream
):
    run_id, door = house.a_run()
    sock = a_stream(door, upstream)

    said = pidispatch("pause", "--now", "--reason", "it spends too much")
    since = time.monotonic()
    client = UnixClient(door)
    status, answer = client.ask("POST", PATH, chat())
    refused_after = time.monotonic() - since
    assert upstream.was_hung_up()
    cut_after = time.monotonic() - since

    assert said.out.startswith(
        "everything is paused: nothing more starts, and every model call is refused\n1 run still"
    )
    assert (status, "stopped" in answer["error"]["message"]) == (402, True)
    assert max(refused_after, cut_after) < slowness()
    assert settled(database) == {"state": "assumed", "stop_reason": "aborted", "counted": True}
    assert client.ask("GET", "/budget")[0] == 200  # the door itself is open: there may be a report to come
    assert Runs(database).facts(run_id).refused == "stopped"
    client.close()
    sock.close()


def test_status_says_so_and_resume_lets_runs_call_again(pidispatch, database, house, upstream):
    run_id, door = house.a_run()
    client = UnixClient(door)
    pidispatch("pause", "--now")

    assert client.ask("POST", PATH, chat())[0] == 402
    assert ", model calls are refused since 2" in pidispatch("status").out
    found = pidispatch("status", "--json").document
    assert found["stopped_since"] == found["paused"][0]["stopped_at"] is not None
    shown = value(database, "SELECT detail ->> 'stops_calls' FROM audit_log ORDER BY id DESC LIMIT 1")
    assert shown == "true"

    pidispatch("resume")

    assert pidispatch("status", "--json").document["stopped_since"] is None
    sock = a_stream(door, upstream)
    time.sleep(1.2)  # two looks of the watcher
    upstream.chunk(b"data: [DONE]\n\n")
    upstream.send(b"0\r\n\r\n")
    assert b"DONE" in read_until(sock, b"0\r\n\r\n")
    settled(database)
    assert Runs(database).facts(run_id).refused is None
    end(database, Runs(database).facts(run_id).claim)
    client.close()
    sock.close()


def test_one_scope_is_stopped_and_the_others_call_on(pidispatch, database, house, upstream):
    stopped, door = house.a_run()
    _, other = house.a_run()
    key = value(database, "SELECT scope FROM runs WHERE id = :id", id=stopped)

    assert pidispatch("pause", "--now", "--scope", str(key)).code == 0

    client = UnixClient(door)
    assert client.ask("POST", PATH, chat())[0] == 402
    sock = a_stream(other, upstream)
    time.sleep(1.2)
    upstream.chunk(b"data: still here\n\n")
    read_until(sock, b"still here")
    assert f"paused: {key} since 2" in pidispatch("status").out
    client.close()
    sock.close()
