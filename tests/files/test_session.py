"""A session is read in bounded time and memory, whatever the agent made of its directory."""

import os
import time

import pytest

from pidispatch.domain.runs.session import NotKept
from pidispatch.files.outbox import read_session
from tests.support.patience import slowness

SESSION = b'{"type":"session","version":3,"cwd":"/workspace"}\n{"type":"message"}\n'
MOST = 64 * 1024


@pytest.fixture
def session(tmp_path):
    made = tmp_path / "box" / "session"
    made.mkdir(parents=True)
    (made / "current.jsonl").write_bytes(SESSION)
    return made


def read(session, most=MOST, mask=bytes):
    begun = time.monotonic()
    found = read_session(str(session), most=most, mask=mask)
    assert time.monotonic() - begun < 2 * slowness()
    return found


def test_what_pi_wrote_is_read_whole(session):
    assert read(session) == SESSION
    assert read(session, most=len(SESSION)) == SESSION
    assert read(session, most=0) == SESSION


def hiding(secret):
    return lambda content: content.replace(secret, b"***")


def test_what_is_secret_is_hidden_before_anybody_looks(session):
    (session / "current.jsonl").write_bytes(SESSION + b'{"said":"sk-secret"}\n')

    assert read(session, mask=hiding(b"sk-secret")) == SESSION + b'{"said":"***"}\n'
    assert read(session, mask=hiding(b'sk-secret"}')) == NotKept("unparseable")


def test_a_larger_one_is_not_read(session):
    assert read(session, most=len(SESSION) - 1) == NotKept("too-large")


def test_holes_count_as_what_they_pretend_to_be(session):
    os.truncate(session / "current.jsonl", 1 << 40)

    assert read(session) == NotKept("too-large")
    assert read(session, most=0) == NotKept("too-large")


def a_link_out(path):
    outside = path.parent.parent.parent / "secret"
    outside.write_bytes(SESSION)
    path.symlink_to(outside)


def a_dangling_link(path):
    path.symlink_to("nowhere")


def a_device(path):
    path.symlink_to("/dev/zero")


def nothing(path):
    assert not path.exists()


@pytest.mark.parametrize(
    "make",
    [a_link_out, a_dangling_link, a_device, os.mkfifo, os.mkdir, nothing],
    ids=lambda make: make.__name__,
)
def test_only_a_regular_file_is_read(session, make):
    (session / "current.jsonl").unlink()
    make(session / "current.jsonl")

    assert read(session) == NotKept("not-a-regular-file")


def test_a_directory_behind_a_link_is_not_followed(session):
    moved = session.with_name("elsewhere")
    session.rename(moved)
    session.symlink_to(moved)

    assert read(session) == NotKept("not-a-regular-file")
    assert read(session / "missing") == NotKept("not-a-regular-file")


@pytest.mark.parametrize(
    ("content", "reason"), [(b"", "absent"), (b"no session\n", "unparseable"), (bytes(1000), "unparseable")]
)
def test_what_is_no_session_is_of_no_use(session, content, reason):
    (session / "current.jsonl").write_bytes(content)

    assert read(session) == NotKept(reason)
