"""Names: the same request within a minute is one run, and a folder has one lock."""

from datetime import UTC, datetime, timedelta, timezone

from pidispatch.domain.runs.names import folder_mutex, folder_scope, local_run_id, requeued_run_id

NOON = datetime(2026, 3, 1, 12, 0, 30, tzinfo=UTC)


def an_id(**changes):
    asked = {"folder": b"/r", "flow": None, "task": b"t", "asked_at": NOON, **changes}
    return local_run_id(**asked)


def test_the_same_words_within_one_minute_are_one_run():
    assert an_id() == an_id(asked_at=NOON + timedelta(seconds=29))
    assert an_id() == an_id(asked_at=NOON.astimezone(timezone(timedelta(hours=5))))
    assert an_id() != an_id(asked_at=NOON + timedelta(seconds=30))


def test_anything_else_that_differs_is_another_run():
    ids = {
        an_id(),
        an_id(folder=b"/s"),
        an_id(task=b"u"),
        an_id(flow="f"),
        an_id(model="m"),
        an_id(provider="m"),
    }

    assert len(ids) == 6


def test_the_id_is_the_references():
    # sha256 over NUL-joined folder, flow, task, minute; first 16 hex digits.
    assert an_id(folder=b"/repo", task=b"do it") == "local-548b219fa536ab2d"


def test_the_scope_is_lexical_and_says_nothing_of_the_path():
    assert folder_scope("/a/b/../c ") == folder_scope("/a/c")
    assert folder_scope("//a/c") == folder_scope("/a/c")
    assert folder_scope("/a/c") != folder_scope("/a/C")
    assert folder_scope("/a/e\u0301") == folder_scope("/a/\u00e9")
    assert "a" not in folder_scope("/secret-name").removeprefix("folder:").strip("0123456789abcdef")


def test_the_lock_is_by_host_device_and_inode():
    assert folder_mutex("h1", 2049, 77) == "inode:h1:2049:77"


def test_a_repeated_run_has_one_name_for_one_request():
    name = requeued_run_id("local-1", 0)

    assert name == requeued_run_id("local-1", 0)
    others = {
        requeued_run_id("local-1", 1),
        requeued_run_id("local-2", 0),
        requeued_run_id("local-1", 0, b"x"),
    }
    assert len({name, *others}) == 4
    assert len(name) == len("local-") + 16
