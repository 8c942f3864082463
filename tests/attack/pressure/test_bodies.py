"""Bodies that take long to read: how much of the gateway's own time they get, and who waits for them.

Nothing here goes by the wall clock: work is told in processor time of the thread that does it, against what the plain
copying of as many bytes takes on this machine.
"""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from pidispatch.gateway.http1 import MOST_BODY, MOST_CHUNKS, Refused, Wire
from pidispatch.gateway.judges import SMALL, Judges, is_easy
from pidispatch.gateway.judging import Question, judge
from pidispatch.gateway.rooms import LEAST_BODIES, RUN_BODIES, Limits
from pidispatch.gateway.scanning import NotARequest
from pidispatch.ports import ProviderFacts
from tests.gateway.parts import UnixClient, chat, raw_client, read_until
from tests.support.scale import scaled

SIZE = scaled(2 * 1024 * 1024, nightly=MOST_BODY - 300)
FACTS = ProviderFacts(
    name="openai", api="openai-responses", known_to_pi=True, credential=True, lacks=None, key_source=None
)
PATH = "/v1/chat/completions"

HARD = {
    "strings in a list": lambda n: b'{"model":"c","metadata":[' + b'"",' * (n // 3 - 20) + b'""]}',
    "flat lists": lambda n: b'{"model":"c","metadata":[' + b"[]," * (n // 3 - 20) + b"[]]}",
    "nested lists": lambda n: b'{"model":"c","metadata":' + b"[" * (n // 2) + b"]" * (n // 2) + b"}",
    "strings that do not end": lambda n: b'{"model":"c","input":[' + b'"a' * (n // 2),
    "quotes in a string": lambda n: b'{"model":"c","input":"' + b'\\"' * (n // 2) + b'"}',
    "spaces": lambda n: b'{"model":"c","metadata":[1' + b" " * n + b"]}",
    "one long text": lambda n: b'{"model":"c","input":"' + b"x" * n + b'"}',
    "objects of many members": lambda n: (
        b'{"model":"c","metadata":[' + b'{"a":1,"b":[2]},' * (n // 16) + b"1]}"
    ),
}


@pytest.fixture(scope="module")
def judges():
    judges = Judges()
    judges.prepare()
    yield judges
    judges.close()


def question(run_id=1):
    return Question(run_id, FACTS, {}, {})


def copying(size):
    """Processor seconds of this thread for one plain copy of so many bytes, the quickest of some."""
    data, best = os.urandom(1024) * (size // 1024), 1.0
    for _ in range(5):
        began = time.thread_time()
        bytes(bytearray(data))
        best = min(best, time.thread_time() - began)
    return max(best, 1e-4)


@pytest.mark.parametrize("shape", HARD)
def test_a_body_takes_the_gateway_no_more_time_than_some_copies_of_it(judges, shape):
    body = HARD[shape](SIZE)
    unit = copying(len(body))

    began = time.thread_time()
    try:
        judged = judges.judge(question(), body)
    except NotARequest:
        judged = None
    took = time.thread_time() - began

    assert judged is None or judged.bound.tokens_in > 0
    assert took < 40 * unit + 0.01, f"{took / unit:.0f} copies"


@pytest.mark.parametrize("shape", [name for name in HARD if name not in {"spaces", "one long text"}])
def test_a_small_body_that_is_hard_is_judged_elsewhere_too(shape):
    assert not is_easy(HARD[shape](SMALL))
    assert is_easy(HARD["one long text"](SMALL))


def test_what_is_judged_elsewhere_is_judged_as_here(judges):
    body = b'{"model":"c","max_output_tokens":50,"input":[' + b'{"role":"user","content":"hi"},' * 5000 + b'{"role":"user","content":"hi"}]}'  # fmt: skip
    assert len(body) > SMALL

    assert judges.judge(question(), body) == judge(question(), body)


def test_what_was_learned_of_a_run_is_known_elsewhere_too(judges):
    start = b'{"model":"c","max_output_tokens":50,"input":[' + b'{"role":"user","content":"hi"},' * 5000
    first = judges.judge(question(), start + b'{"role":"user","content":"a"}]}')
    assert first.bound.trace is not None

    known = Question(1, FACTS, {}, {first.bound.trace: 7_000})
    longer = start + b'{"role":"user","content":"a"},{"role":"user","content":"b"}]}'

    assert judges.judge(known, longer).bound.tokens_in < 8_000
    assert judges.judge(question(), longer).bound.tokens_in > 100_000


def test_while_one_run_is_judged_another_is_too(judges):
    """The victim's body is judged to its end while the hostile one's has not come to its own."""
    done: list[str] = []
    hard = b'{"model":"c","input":[' + b'"a' * (3 * 1024 * 1024)

    def hostile():
        with pytest.raises(NotARequest):
            judges.judge(question(1), hard)
        done.append("hostile")

    thread = threading.Thread(target=hostile)
    thread.start()
    while not judges._waiting[1]:
        time.sleep(0.001)
    for _ in range(3):
        judges.judge(question(2), b'{"model":"c","input":"' + b"x" * (2 * SMALL) + b'"}')
    done.append("victim")
    thread.join()

    assert done == ["victim", "hostile"]


def test_a_judge_that_dies_is_replaced_and_its_body_not_sent(judges):
    own = Judges()
    own.judge(question(), b'{"model":"c","input":"' + b"x" * (2 * SMALL) + b'"}')
    [process] = own._idle
    process._child.kill()
    process._child.wait()

    with pytest.raises(Refused) as refused:
        own.judge(question(), b'{"model":"c","input":"' + b"x" * (2 * SMALL) + b'"}')

    assert refused.value.status == 413
    assert own.judge(question(), b'{"model":"c","input":"' + b"x" * (2 * SMALL) + b'"}').bound.tokens_in
    own.close()


def test_a_judge_that_takes_too_long_is_ended(judges):
    own = Judges(seconds=0.0)

    with pytest.raises(Refused):
        own.judge(question(), b'{"model":"c","input":"' + b"x" * (2 * SMALL) + b'"}')

    assert own._started == 0
    own.close()


def test_a_judge_is_told_no_key_and_no_setting(judges, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("DATABASE_URL", "postgres://x")
    own = Judges()
    own.judge(question(), b'{"model":"c","input":"' + b"x" * (2 * SMALL) + b'"}')

    told = Path(f"/proc/{own._idle[0]._child.pid}/environ").read_bytes()
    own.close()

    assert b"sk-secret" not in told
    assert b"DATABASE_URL" not in told


def posted(house, head, body=b"", run_id=7):
    sock = raw_client(house.open(run_id))
    sock.sendall(head + b"\r\n\r\n" + body)
    answer = read_until(sock, b"\r\n\r\n")
    while answer.count(b"}") < 1:
        answer += sock.recv(4096)
    sock.close()
    return answer


def test_more_than_the_largest_body_is_refused_before_it_is_sent(make_house):
    answer = posted(
        make_house({"scripted": "http://127.0.0.1:1"}),
        b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: %d" % (MOST_BODY + 1),
    )

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"too large: at most 32 MiB are taken" in answer


def test_a_body_in_tiny_chunks_is_refused():
    ours, theirs = socket.socketpair()
    sent = threading.Thread(target=theirs.sendall, args=(b"1\r\na\r\n" * (MOST_CHUNKS + 1),), daemon=True)
    sent.start()
    wire = Wire(ours)
    theirs_head = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    wire._pending += theirs_head
    head = wire.read_head()

    with pytest.raises(Refused) as refused:
        wire.read_body(head)

    assert refused.value.status == 413
    ours.close()
    theirs.close()
    sent.join(10)


def test_half_sent_bodies_of_one_run_take_no_room_of_another(make_house, scripted):
    house = make_house({"scripted": f"{scripted.url}/v1"})
    path = house.open(1)
    head = b"POST %b HTTP/1.1\r\ncontent-length: %d\r\n\r\n{" % (PATH.encode(), MOST_BODY)
    held = [raw_client(path) for _ in range(RUN_BODIES // MOST_BODY)]
    for sock in held:
        sock.sendall(head)
    bodies = house.gateway._doors._rooms.bodies
    while bodies._taken[1] < RUN_BODIES:
        time.sleep(0.005)

    refused = posted(house, head.removesuffix(b"\r\n\r\n{"), run_id=1)

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert house.client(2).ask("POST", PATH, chat())[0] == 200
    for sock in held:
        sock.close()


def test_when_all_runs_together_hold_everything_a_new_one_still_has_its_share():
    from pidispatch.gateway.rooms import ALL_BODIES, Rooms

    rooms = Rooms(Limits(run_connections=10, all_connections=30, run_tunnels=5, all_tunnels=6))
    for run in range(100, 120):
        while rooms.connections.take(run):
            pass
        while rooms.tunnels.take(run):
            pass
        while rooms.bodies.take(run, MOST_BODY):
            pass

    assert [rooms.connections.take(1) for _ in range(9)] == [True] * 8 + [False]
    assert [rooms.tunnels.take(1) for _ in range(5)] == [True] * 4 + [False]
    assert rooms.bodies.take(1, LEAST_BODIES)
    assert not rooms.bodies.take(1, 1)
    assert rooms.bodies._taken.total() <= ALL_BODIES + 21 * LEAST_BODIES


def test_a_flood_of_connections_is_answered_and_told_once(make_house, scripted):
    from structlog.testing import capture_logs

    house = make_house({"scripted": f"{scripted.url}/v1"}, limits=Limits(run_connections=12))
    path = house.open(1)
    with capture_logs() as logs:
        socks = [raw_client(path) for _ in range(60)]
        answers = [sock.recv(4096) for sock in socks[12:]]
        victim = house.client(2).ask("POST", PATH, chat())[0]

    assert victim == 200
    assert all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers)
    told = [entry for entry in logs if entry["event"] == "gateway.no_room"]
    assert [(entry["what"], entry["run_id"], entry["taken"]) for entry in told] == [("connections", 1, 12)]
    for sock in socks:
        sock.close()
    while house.gateway._doors._rooms.connections._taken[1]:
        time.sleep(0.005)
    client = UnixClient(path)
    assert client.ask("GET", "/budget")[0] == 200
    client.close()
