"""An outbox is read in bounded time, whatever the agent put there."""

import os
import threading
import time

import pytest

from pidispatch.domain import words
from pidispatch.domain.outbox import WHOLE_OUTBOX, Letter
from pidispatch.files import untrusted
from pidispatch.files.outbox import read_outbox
from tests.support.patience import slowness

REQUEST = b'{"flow": "review", "task": "look"}'


@pytest.fixture
def outbox(tmp_path):
    made = tmp_path / "outbox"
    made.mkdir()
    return made


def letters(outbox, most=10):
    """What is read, within two seconds."""
    begun = time.monotonic()
    found = read_outbox(str(outbox), most=most)
    assert time.monotonic() - begun < 2 * slowness()
    return found


def test_an_empty_outbox_has_no_requests(outbox):
    assert letters(outbox) == ()


def test_requests_come_by_number_and_those_beyond_the_cap_are_not_opened(outbox):
    for number in (10, 9, 1):
        (outbox / f"request-{number}.json").write_bytes(b"%d" % number)
    (outbox / "request-10.json").unlink()
    os.mkfifo(outbox / "request-10.json")
    (outbox / "notes.txt").write_bytes(b"not a request")

    assert letters(outbox, most=2) == (
        Letter("1", b"1"),
        Letter("9", b"9"),
        Letter("10", refused=words.CHAIN_COUNT_CAP),
    )
    assert letters(outbox, most=0)[0] == Letter("1", refused=words.CHAIN_COUNT_CAP)


def a_named_pipe(path):
    os.mkfifo(path)


def a_link_out(path):
    outside = path.parent.parent / "secret"
    outside.write_bytes(REQUEST)
    path.symlink_to(outside)


def a_link_to_itself(path):
    path.symlink_to(path)


def a_link_to_nothing(path):
    path.symlink_to("/nowhere")


def a_directory(path):
    (path / "deep" / "deeper").mkdir(parents=True)


def a_socket(path):
    os.mknod(path, 0o140600)


def a_device(path):
    try:
        os.mknod(path, 0o020666, os.makedev(1, 5))  # /dev/zero
    except PermissionError:
        pytest.skip("only root makes devices")


def unreadable(path):
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    path.write_bytes(REQUEST)
    path.chmod(0)


@pytest.mark.parametrize(
    "make",
    [
        a_named_pipe,
        a_link_out,
        a_link_to_itself,
        a_link_to_nothing,
        a_directory,
        a_socket,
        a_device,
        unreadable,
    ],
)
def test_what_is_no_regular_file_is_refused_and_its_neighbour_read(outbox, make):
    make(outbox / "request-1.json")
    (outbox / "request-2.json").write_bytes(REQUEST)

    assert letters(outbox) == (Letter("1", refused=words.CHAIN_NOT_REGULAR_FILE), Letter("2", REQUEST))


def test_a_sparse_file_of_ten_gigabytes_is_too_large(outbox):
    with (outbox / "request-1.json").open("wb") as file:
        file.truncate(10 * 1024**3)

    assert letters(outbox) == (Letter("1", refused=words.CHAIN_OVERSIZE),)


@pytest.mark.parametrize(("size", "refused"), [(4096, None), (4097, words.CHAIN_OVERSIZE)])
def test_the_bound_is_4096_bytes(outbox, size, refused):
    (outbox / "request-1.json").write_bytes(b"x" * size)

    (letter,) = letters(outbox)

    assert (letter.refused, len(letter.content)) == (refused, 0 if refused else size)


def test_names_that_are_no_text_are_nobodys_business(outbox):
    for name in (b"request-1.json\n", b"request-\xff.json", b"\x1b[2J", b"request-1.json\x7f", b"-rf"):
        with open(os.path.join(os.fsencode(outbox), name), "wb") as file:  # noqa: PTH118, PTH123 - bytes
            file.write(REQUEST)

    assert letters(outbox) == ()


def test_a_hundred_thousand_entries_are_one_refusal(outbox):
    descriptor = os.open(outbox, os.O_RDONLY)
    for number in range(100_000):
        os.mknod(f"request-{number}.json", dir_fd=descriptor)
    os.close(descriptor)

    assert letters(outbox) == (Letter(WHOLE_OUTBOX, refused=words.CHAIN_COLLECT_ERROR),)


def test_an_outbox_that_is_a_link_a_file_or_gone_is_one_refusal(outbox, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(outbox)
    (outbox / "request-1.json").write_bytes(REQUEST)

    for place in (link, outbox / "request-1.json", tmp_path / "gone"):
        assert letters(place) == (Letter(WHOLE_OUTBOX, refused=words.CHAIN_COLLECT_ERROR),)


@pytest.mark.parametrize("make", [a_named_pipe, a_link_out])
def test_a_file_that_is_swapped_between_look_and_open_is_refused(outbox, monkeypatch, make):
    request = outbox / "request-1.json"
    request.write_bytes(REQUEST)
    real_stat = os.stat

    def stat_then_swap(path, **options):
        facts = real_stat(path, **options)
        request.unlink()
        make(request)
        return facts

    monkeypatch.setattr(untrusted.os, "stat", stat_then_swap)

    assert read_outbox(str(outbox), most=1) == (Letter("1", refused=words.CHAIN_NOT_REGULAR_FILE),)


def test_a_file_that_grows_while_it_is_read_stays_within_the_bound(outbox):
    request = outbox / "request-1.json"
    request.write_bytes(b"")
    stop = threading.Event()

    def grow():
        with request.open("ab") as file:
            while not stop.is_set():
                file.write(b"x" * 100)

    grower = threading.Thread(target=grow)
    grower.start()
    try:
        for _ in range(50):
            (letter,) = letters(outbox)
            assert letter.refused in {None, words.CHAIN_OVERSIZE}
            assert len(letter.content) <= 4096
    finally:
        stop.set()
        grower.join()
