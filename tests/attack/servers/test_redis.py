"""Redis as operators have it: what takes no bell is red everywhere, told once, and holds up nobody who waits."""

import os
import shutil
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
import structlog
from redis import Redis

from pidispatch.domain.health.health import FaultWord, redis_faults
from pidispatch.errors import QueueUnavailable
from pidispatch.queue.bells import START, RedisBell, queue_of
from pidispatch.queue.broker import make_broker
from pidispatch.queue.consumer import WokenConsumer
from pidispatch.queue.server import INTERACTIVE, check_redis, make_client, redis_facts
from pidispatch.services.account import server_account
from pidispatch.services.binaries import find_valkey
from pidispatch.services.valkey import EmbeddedValkey
from tests.store.builders import a_run

# Documented in docs/operations.md: what a user of our own needs.
RIGHTS = (
    "+ping +hello +auth +select +client|setinfo +client|setname +set +rpush +ltrim +blpop +llen +info +evalsha +eval"
    " +script|load +del +hdel +hexists +hget +hlen +hmget +hset +keys +lpop +sadd +scard +smembers +srem +zadd"
    " +zrangebyscore +zrem"
)


@pytest.fixture(scope="module")
def own():
    folder = Path(tempfile.mkdtemp(prefix="pd-", dir="/tmp"))
    folder.chmod(0o711)
    server = EmbeddedValkey(folder / "valkey", folder / "v", server_account())
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def valkey(own):
    """A Valkey of these tests' own, put right again after each."""
    yield own
    own.data_dir.chmod(0o700)
    client = Redis.from_url(own.url())  # without a PING, which MISCONF refuses
    for words in ("stop-writes-on-bgsave-error no", "maxmemory 0"):
        client.execute_command("CONFIG", "SET", *words.split())
    client.config_set("save", "")
    client.execute_command("REPLICAOF", "NO", "ONE")
    for name in ("weak", "silent", "ours"):
        client.execute_command("ACL", "DELUSER", name)
    client.flushall()
    client.close()


def asking(valkey, *words):
    client = make_client(valkey.url())
    client.execute_command(*words)
    client.close()


def a_replica(valkey):
    asking(valkey, "REPLICAOF", "127.0.0.1", "1")
    return valkey.url(), "read only"


def out_of_memory(valkey):
    asking(valkey, "CONFIG", "SET", "maxmemory", "1")
    return valkey.url(), "maxmemory"


def a_disk_that_fails(valkey):
    """MISCONF: the snapshot cannot be written."""
    client = Redis.from_url(valkey.url())
    client.config_set(
        "stop-writes-on-bgsave-error", "no"
    )  # an earlier failure would refuse this one's writes
    client.config_set("save", "3600 1")
    valkey.data_dir.chmod(0o500)
    if os.geteuid() == 0 and server_account() is None:
        pytest.skip("root may write everywhere")
    client.set("something", 1)
    client.execute_command("BGSAVE")
    until(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err")
    client.config_set("stop-writes-on-bgsave-error", "yes")
    client.close()
    return valkey.url(), "snapshot"


def no_right_to_write(valkey):
    asking(valkey, "ACL", "SETUSER", "weak", "on", ">pw", "~*", "&*", "+@read", "+ping", "+info", "+hello")
    return valkey.url().replace("unix://", "unix://weak:pw@"), "no permissions"


def no_password(valkey):
    asking(valkey, "ACL", "SETUSER", "weak", "on", ">pw", "~*", "&*", "+@all")
    return valkey.url().replace("unix://", "unix://weak:wrong@"), "password"


def until(holds, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


UNUSABLE = (a_replica, out_of_memory, a_disk_that_fails, no_right_to_write)


@pytest.mark.parametrize("state", UNUSABLE)
def test_a_redis_that_takes_no_write_is_red_in_doctor_status_and_explain(
    command, bare, valkey, database, database_url, state
):
    url, words = state(valkey)
    bare.setenv("DATABASE_URL", database_url)
    bare.setenv("REDIS_URL", url)
    run_id = a_run(database)

    facts = redis_facts(url)
    status, explain, doctor = command("status"), command("explain", str(run_id)), command("doctor", "--json")

    assert facts.unwritable is not None
    assert words in facts.unwritable
    assert [fault.word for fault in redis_faults(facts)] == [FaultWord.REDIS_UNWRITABLE]
    assert "red: redis-unwritable: Redis takes no bells: " in status.out
    assert "red: redis-unwritable: Redis takes no bells: " in explain.out
    graded = [each["grade"] for each in doctor.document["findings"] if each["check"] == "redis"]
    assert graded[0] == "FAILED"  # with MISCONF nothing more can be asked
    assert command("status", "--check").code == 1
    assert any(problem.startswith("Redis takes no bells: ") for problem in check_redis(url))


@pytest.mark.parametrize("state", [*UNUSABLE, no_password])
@pytest.mark.usefixtures("gitbox")
def test_a_run_is_stored_and_the_bell_is_missed(command, bare, valkey, database_url, folder, state):
    url, _ = state(valkey)
    bare.setenv("DATABASE_URL", database_url)
    bare.setenv("REDIS_URL", url)

    said = command("run", str(folder), "--task", "x")

    assert said.code == 0
    assert "is queued for" in said.out
    assert "no worker was woken" in said.err
    for arguments in (("resume",), ("status",), ("cancel", "--all"), ("runs",)):
        each = command(*arguments)
        assert each.code == 0, each
        assert "Traceback" not in each.err


@pytest.mark.usefixtures("gitbox")
def test_a_redis_that_says_nothing_is_given_up_within_two_seconds(command, bare, mute, database_url, folder):
    bare.setenv("DATABASE_URL", database_url)
    bare.setenv("REDIS_URL", f"redis://127.0.0.1:{mute}/0")
    client = make_client(f"redis://127.0.0.1:{mute}/0", within=INTERACTIVE)
    waits = client.connection_pool.connection_kwargs

    assert waits["socket_timeout"] + waits["socket_connect_timeout"] <= 2
    said = command("run", str(folder), "--task", "x")
    assert said.code == 0
    assert "no worker was woken" in said.err
    assert "red: redis-silent" in command("status").out
    assert command("resume").code == 0


def test_without_the_right_to_ask_it_could_not_be_checked(command, bare, valkey, database_url):
    asking(valkey, "ACL", "SETUSER", "silent", "on", ">pw", "~*", "&*", "+@all", "-info")
    url = valkey.url().replace("unix://", "unix://silent:pw@")
    bare.setenv("DATABASE_URL", database_url)
    bare.setenv("REDIS_URL", url)

    facts, doctor = redis_facts(url), command("doctor", "--json")

    assert (facts.unwritable, facts.policy, facts.append_only) == (None, None, None)
    assert not list(redis_faults(facts))
    (found,) = [each for each in doctor.document["findings"] if each["check"] == "redis"]
    assert found["grade"] == "warning"
    assert "could not be checked" in found["detail"]
    assert command("status").code == 0


def test_the_documented_rights_are_enough_for_bells_and_health(valkey):
    asking(valkey, "ACL", "SETUSER", "ours", "on", ">pw", "~pidispatch*", "resetchannels", *RIGHTS.split())
    url = valkey.url().replace("unix://", "unix://ours:pw@")
    assert check_redis(url) == []

    heard = one_bell(url)

    assert heard


def one_bell(url):
    import dramatiq

    broker = make_broker(url)
    heard = threading.Event()

    @dramatiq.actor(broker=broker, queue_name=queue_of("h1"), actor_name=START)
    def start():
        heard.set()

    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    try:
        RedisBell(broker).ring_start("h1")
        return heard.wait(30) and RedisBell(broker).pending("h1") == 0
    finally:
        worker.stop()
        broker.close()


def test_an_outage_is_one_line_of_the_log_and_its_end_another(valkey):
    """Stock dramatiq logs a traceback each second for each consumer: 1,575 lines were seen."""
    told = []
    structlog.configure(processors=[lambda _logger, _name, event: told.append(event) or str(event)])
    broker = make_broker(valkey.url())
    broker.declare_queue(queue_of("h1"))
    consumers = [broker.consume(queue_of("h1"), prefetch=1, timeout=10) for _ in range(2)]
    try:
        asking(valkey, "REPLICAOF", "127.0.0.1", "1")
        for consumer in (*consumers, *consumers):
            assert next(consumer) is None
        assert [each["event"] for each in told] == ["redis_unusable"]
        asking(valkey, "REPLICAOF", "NO", "ONE")
        RedisBell(broker).ring_start("h1")
        until(lambda: any(next(consumer) is not None for consumer in consumers), 30)
        assert [each["event"] for each in told] == ["redis_unusable", "redis_usable_again"]
    finally:
        structlog.reset_defaults()
        broker.close()
    assert all(isinstance(each, WokenConsumer) for each in consumers)


# -- TLS


@pytest.fixture(scope="module")
def encrypted():
    """A Valkey that speaks TLS with a certificate of a CA of our own; skipped where the program cannot."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    folder = Path(tempfile.mkdtemp(prefix="pd-tls-", dir="/tmp"))
    made = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.crt"
        " -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign &&"
        " openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout key.pem -out req.pem &&"
        " printf 'subjectAltName=IP:127.0.0.1,DNS:localhost' > ext &&"
        " openssl x509 -req -in req.pem -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out cert.pem"
    )
    subprocess.run(["sh", "-c", made], cwd=folder, check=True, capture_output=True)
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    argv = [str(find_valkey().path), "--port", "0", "--tls-port", str(port), "--tls-cert-file", "cert.pem"]
    argv += ["--tls-key-file", "key.pem", "--tls-ca-cert-file", "ca.crt", "--tls-auth-clients", "no"]
    argv += ["--appendonly", "yes", "--maxmemory-policy", "noeviction", "--dir", str(folder)]
    server = subprocess.Popen(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    url = f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={folder}/ca.crt"
    try:
        end = time.monotonic() + 30
        while True:
            try:
                redis_facts(url)
                break
            except QueueUnavailable:
                if server.poll() is not None:
                    pytest.skip("this Valkey was built without TLS")
                assert time.monotonic() < end
                time.sleep(0.05)
        yield url, folder
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def test_tls_with_a_ca_of_ones_own(encrypted):
    url, _ = encrypted

    assert check_redis(url) == []
    assert one_bell(url)
    for refused in (url.partition("?")[0], f"{url}x", url.replace("ca.crt", "key.pem")):
        with pytest.raises(QueueUnavailable):
            check_redis(refused)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis+sentinel://h:26379/primary", "Redis Sentinel is not asked"),
        ("sentinel://h:26379", "Redis Sentinel is not asked"),
        ("redis://h/0?db=bogus", "in the query"),
        ("redis://h/0?unheard=of", "in the query"),
        ("redis://h/0?decode_responses=true", "in the query"),
        ("redis://h/0?socket_timeout=1", "in the query"),
        ("redis://h/0?ssl_ca_certs=/ca.crt", "in the query"),
        ("rediss://h/0?ssl_cert_reqs=perhaps", "in the query"),
        ("rediss://h/0?ssl_ca_certs=ca.crt", "in the query"),
    ],
)
def test_an_address_that_cannot_work_is_refused_with_the_way_out(command, bare, url, words):
    bare.setenv("REDIS_URL", url)
    bare.setenv("DATABASE_URL", "postgresql:///d")

    said = command("config")

    assert said.code == 2
    assert words in said.err
    assert said.err.count("\n") == 1


def test_what_is_no_redis_is_an_absence(closed_port):
    for url in (f"redis://127.0.0.1:{closed_port}", "rediss://127.0.0.1:1?ssl_ca_certs=/nonexistent"):
        with pytest.raises(QueueUnavailable):
            check_redis(url)
