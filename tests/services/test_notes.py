"""What a worker had in hand is read from its file when it has ended, and not before."""

import threading

import pytest

from pidispatch.services.lifelines import Lifelines
from pidispatch.services.notes import WorkerNotes


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run" / "workers"


def a_worker(folder, name="h1:1:ab"):
    lifelines = Lifelines(folder)
    lifelines.hold(name)
    return WorkerNotes(lifelines)


def a_grave(folder, name, words):
    """The file of a worker that has ended: nobody holds it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(words)


def test_a_living_workers_notes_are_its_own_affair(folder):
    notes = a_worker(folder)

    with notes.looking_at(7, 3), notes.finishing(8):
        assert (folder / "h1%3A1%3Aab").read_bytes() == b"look 7 3\nfinish 8\n"
        assert notes.lookers_lost() == []
        assert notes.finishers_lost(8) == 0

    assert (folder / "h1%3A1%3Aab").read_bytes() == b""


def test_what_the_dead_had_in_hand_is_told(folder):
    a_grave(folder, "a", b"look 7 3\nfinish 8\nfinish 8\n")
    a_grave(folder, "b", b"finish 8\nlook 9 1\n")
    a_grave(folder, "c", b"")

    notes = a_worker(folder)

    assert sorted(notes.lookers_lost()) == [(7, 3), (9, 1)]
    assert notes.finishers_lost(8) == 2
    assert notes.finishers_lost(80) == 0


@pytest.mark.parametrize(
    "words",
    [b"\xff\x00", b"look\n", b"look 1\n", b"look -1 2\n", b"look 99999999999999999999 1\n", b"x" * 70_000],
)
def test_a_file_that_says_something_else_says_nothing(folder, words):
    a_grave(folder, "a", words)

    notes = a_worker(folder)

    assert notes.lookers_lost() == []
    assert notes.finishers_lost(1) == 0


def test_a_note_is_taken_back_when_the_work_fails(folder):
    notes = a_worker(folder)

    with pytest.raises(RuntimeError), notes.finishing(8):
        raise RuntimeError

    assert (folder / "h1%3A1%3Aab").read_bytes() == b""


def test_notes_of_many_threads_do_not_mix(folder):
    notes = a_worker(folder)

    def work(run_id):
        for _ in range(50):
            with notes.looking_at(run_id, 1), notes.finishing(run_id):
                pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (folder / "h1%3A1%3Aab").read_bytes() == b""


def test_a_run_directory_without_room_keeps_nobody_from_working(folder, monkeypatch):
    notes = a_worker(folder)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pidispatch.services.lifelines.os.pwrite", full)
    with notes.finishing(8):
        pass
