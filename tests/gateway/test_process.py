"""Boot, restart, end; the control socket; what is refused before anything listens."""

import os
import signal
import socket
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pidispatch.domain.providers.calls import ProviderFacts, Ticket
from pidispatch.errors import ConfigurationRefused, GatewayUnavailable
from pidispatch.gateway import control
from pidispatch.gateway.client import ControlDoors
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Providers
from tests.gateway.fakes import FakeLedger, FakeTickets, Switch
from tests.gateway.parts import CONTAINER, UnixClient


def a_gateway(run_dir, secret=None):
    switch = Switch()
    tickets = FakeTickets(switch)
    providers = Providers(keys={})
    return Gateway(
        run_dir,
        secret or run_dir / "secret",
        "here",
        tickets=tickets,
        ledger=FakeLedger(switch, tickets),
        providers=providers,
    )


def restart(make_house, house):
    house.gateway.stop()
    house.gateway.stop = lambda: None
    return make_house(like=house)


def test_a_restarted_gateway_opens_the_doors_of_all_runs_that_hold_a_slot(make_house):
    first = make_house()
    paths = [first.open(7), first.open(8)]
    gone = first.open(9)
    first.tickets.runs[9].live = False

    second = restart(make_house, first)

    assert second.doors.ready()
    for path in paths:
        client = UnixClient(path)
        assert client.ask("GET", "/budget")[0] == 200
        client.close()
    assert not gone.exists()
    assert gone.parent.exists()


def test_a_restarted_gateway_assumes_the_calls_its_predecessor_left_open(make_house):
    first = make_house()
    first.open()
    first.ledger.open_call(7, 1, provider="scripted", model="m", api="openai-completions")

    second = restart(make_house, first)

    assert [call.state for call in second.ledger.calls] == ["assumed"]


def test_a_gateway_waits_for_the_database_and_says_that_it_is_not_ready(make_house):
    first = make_house()
    path = first.open()
    first.switch.away = True
    second = restart(make_house, first)

    before = second.doors.ready(), path.exists()
    with pytest.raises(GatewayUnavailable, match="starting"):
        second.doors.open(7)
    second.switch.away = False
    second.gateway.start()

    assert before == (False, False)
    assert second.doors.ready()
    assert path.exists()


def test_a_run_that_holds_no_slot_gets_no_door(make_house):
    house = make_house()
    house.tickets.add(Ticket(7, "local:7", 1, "scripted"), CONTAINER)
    house.tickets.runs[7].live = False

    with pytest.raises(GatewayUnavailable, match="holds no slot"):
        house.doors.open(7)
    assert not (house.run_dir / "g" / "7").exists()


def test_whoever_removes_a_door_too_late_leaves_the_next_attempts_alone(make_house):
    house = make_house()
    house.open(attempt=1)
    path = house.open(attempt=2)

    house.doors.remove(7)

    assert path.exists()
    assert house.doors.ready()


def test_closing_and_removing_can_be_repeated(make_house):
    house = make_house()
    path = house.open()

    house.doors.close(7)
    house.doors.close(7)
    kept = path.parent.exists()
    house.tickets.runs[7].live = False
    house.doors.remove(7)
    house.doors.remove(7)
    house.doors.close(12345)

    assert kept
    assert not path.parent.exists()


def test_closing_says_so_when_a_call_cannot_be_settled(make_house, monkeypatch):
    monkeypatch.setattr("pidispatch.gateway.door.doors.SETTLE_SECONDS", 0.05)
    house = make_house({"scripted": "http://127.0.0.1:1"})
    client = house.client()
    opens = house.ledger.open_call
    house.ledger.open_call = lambda *a, **k: (opens(*a, **k), setattr(house.switch, "away", True))[0]
    client.ask("POST", "/v1/chat/completions", {"model": "m"})

    with pytest.raises(GatewayUnavailable, match="not closed"):
        house.doors.close(7)
    house.switch.away = False
    house.ledger.settled()
    house.doors.close(7)


def test_a_door_opens_while_the_database_is_away_for_nobody(make_house):
    house = make_house()
    house.switch.away = True

    with pytest.raises(GatewayUnavailable, match="Postgres"):
        house.doors.open(7)


def test_the_worker_learns_of_providers_and_never_of_keys(make_house):
    house = make_house(
        {"scripted": "http://127.0.0.1:9/v1"}, keys={"GROQ_API_KEY": "k", "OPENAI_API_KEY": ""}
    )

    assert house.doors.provider("groq") == ProviderFacts(
        "groq", "openai-completions", True, True, key_source="GROQ_API_KEY"
    )
    assert house.doors.provider("openai") == ProviderFacts(
        "openai", "openai-responses", True, False, lacks="no-key"
    )
    assert house.doors.provider("anthropic") == ProviderFacts(
        "anthropic", "anthropic-messages", True, False, lacks="no-key"
    )
    assert house.doors.provider("scripted") == ProviderFacts("scripted", "openai-completions", False, True)
    assert house.doors.provider("nobody") is None


def test_the_control_socket_is_for_its_owner_alone(make_house):
    house = make_house()

    assert stat.S_IMODE((house.run_dir / "gateway.sock").stat().st_mode) == 0o600
    assert stat.S_IMODE(house.run_dir.stat().st_mode) == 0o700


def test_a_peer_of_another_uid_is_hung_up_on(make_house, monkeypatch):
    monkeypatch.setattr("pidispatch.gateway.http.listener.peer_uid", lambda _sock: os.geteuid() + 4321)
    house = make_house()

    with pytest.raises(GatewayUnavailable):
        house.doors.provider("groq")


def test_own_uid_and_root_are_let_in_and_nobody_else():
    assert control._is_ours(os.geteuid())
    assert control._is_ours(0)
    assert not control._is_ours(os.geteuid() + 1)


def test_no_gateway_is_an_answer_of_its_own(run_dir):
    doors = ControlDoors(run_dir / "gateway.sock")

    assert not doors.ready()
    with pytest.raises(GatewayUnavailable):
        doors.close(7)


def test_a_run_directory_whose_sockets_would_be_too_long_is_refused(run_dir):
    deep = run_dir / ("d" * 80)
    deep.mkdir()

    with pytest.raises(ConfigurationRefused, match="shorter run directory"):
        a_gateway(deep)


def test_a_run_directory_that_is_a_link_is_refused(run_dir):
    (run_dir / "real").mkdir()
    (run_dir / "link").symlink_to(run_dir / "real")

    with pytest.raises(ConfigurationRefused, match="not a directory"):
        a_gateway(run_dir / "link")


def test_a_second_gateway_in_one_run_directory_is_refused(make_house, run_dir):
    make_house()

    with pytest.raises(ConfigurationRefused, match="another gateway"):
        a_gateway(run_dir)


def test_a_stale_socket_file_is_replaced(make_house, run_dir):
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(run_dir / "gateway.sock"))

    assert make_house().doors.ready()


def test_the_secret_is_made_once_for_its_owner_alone(make_house, run_dir):
    first = make_house()
    secret = (run_dir / "secret").read_bytes()

    restart(make_house, first)

    assert len(secret) == 32
    assert (run_dir / "secret").read_bytes() == secret
    assert stat.S_IMODE((run_dir / "secret").stat().st_mode) == 0o600


@pytest.mark.parametrize("fault", ["readable", "short", "link", "fifo"])
def test_a_secret_that_others_could_know_is_refused(run_dir, fault):
    path = run_dir / "secret"
    if fault == "fifo":
        os.mkfifo(path, 0o600)
    elif fault == "link":
        (run_dir / "other").write_bytes(b"x" * 32)
        path.symlink_to(run_dir / "other")
    else:
        path.write_bytes(b"x" * (3 if fault == "short" else 32))
        path.chmod(0o644 if fault == "readable" else 0o600)

    with pytest.raises(ConfigurationRefused, match="secret"):
        a_gateway(run_dir)


SERVE = """
    import pathlib, sys
    from pidispatch.gateway.process import Gateway
    from pidispatch.gateway.providers import Providers
    from tests.gateway.fakes import FakeLedger, FakeTickets, Switch
    switch = Switch()
    tickets = FakeTickets(switch)
    if sys.argv[2] == "broken":
        tickets.occupying = None
    run_dir = pathlib.Path(sys.argv[1])
    Gateway(run_dir, run_dir / "secret", "here", tickets=tickets, ledger=FakeLedger(switch, tickets),
            providers=Providers(keys={})).serve()
    print("ended in order")
"""


def serve(run_dir, how):
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SERVE), str(run_dir), how],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_serve_ends_in_order_on_a_signal(run_dir, signum):
    process = serve(run_dir, "well")
    doors = ControlDoors(run_dir / "gateway.sock")
    deadline = time.monotonic() + 20
    while not doors.ready() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)

    process.send_signal(signum)
    out, err = process.communicate(timeout=20)

    assert process.returncode == 0, err
    assert "ended in order" in out
    assert not (run_dir / "gateway.sock").exists()


def test_a_boot_that_fails_ends_the_process_with_its_error(run_dir):
    process = serve(run_dir, "broken")

    _, err = process.communicate(timeout=20)

    assert process.returncode == 1
    assert "TypeError" in err
