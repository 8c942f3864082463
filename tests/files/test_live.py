"""Files that change while we run: a good edit is taken, a bad one keeps the last good."""

import os
import threading
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pidispatch.domain.limits.limitsfile import ScopedLimits, parse_scoped_limits
from pidispatch.domain.limits.projects import parse_boundaries
from pidispatch.errors import ConfigurationRefused
from pidispatch.files import LiveFile, LiveFiles


def rows(day, scope="acme/web", version=1):
    return f'{{"version": {version}, "limits": [{{"scope": "{scope}", "day": {day}}}]}}'.encode()


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "scoped-limits.json"
    found.write_bytes(rows(1))
    return found


def live(path, **more):
    return LiveFile("scoped_limits", path, lambda content: parse_scoped_limits(content, str(path)), **more)


def day(file):
    return file.current().rows[0].day


def events(logs):
    return [each["event"] for each in logs]


def settle(path):
    """Make the file look written long ago, as far as that is possible: only its change time stays."""
    os.utime(path, (1, 1))


def test_a_good_edit_is_in_force_at_the_next_look(path):
    file = live(path)
    assert day(file) == 1

    with capture_logs() as logs:
        path.write_bytes(rows(2))
        assert day(file) == 2
        assert day(file) == 2

    assert events(logs) == ["scoped_limits_reloaded"]


def test_what_is_worth_knowing_is_logged_with_the_value(path):
    path.write_bytes(rows(1, scope="site"))

    with capture_logs() as logs:
        live(path).load()

    assert events(logs) == ["scoped_limits_loaded"]
    assert "names no folder and no repository here" in logs[0]["notes"][0]


def test_an_edit_of_the_same_size_in_the_same_tick_is_seen(path):
    file = live(path)
    for number in range(1, 10):
        found = path.stat()
        path.write_bytes(rows(number))
        os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert day(file) == number


def test_a_renamed_file_is_seen(path, tmp_path):
    file = live(path)
    assert day(file) == 1
    (tmp_path / "new").write_bytes(rows(7))

    (tmp_path / "new").rename(path)

    assert day(file) == 7


def test_a_bad_edit_keeps_the_last_good_and_says_so_once(path):
    file = live(path)
    assert (day(file), file.problem) == (1, None)

    with capture_logs() as logs:
        path.write_bytes(rows(0))
        assert [day(file) for _ in range(5)] == [1] * 5
        assert "day must be an integer >= 1" in file.problem
        path.write_bytes(rows(3))
        assert (day(file), file.problem) == (3, None)

    assert events(logs) == ["scoped_limits_reload_invalid", "scoped_limits_reloaded"]
    assert "day must be" in logs[0]["problems"][0]


def test_another_bad_edit_is_told_again_and_going_back_is_told_too(path):
    file = live(path)
    file.load()

    with capture_logs() as logs:
        for content in (rows(0), b"{", rows(1)):
            path.write_bytes(content)
            assert day(file) == 1

    assert events(logs) == ["scoped_limits_reload_invalid"] * 2 + ["scoped_limits_reloaded"]


@pytest.mark.parametrize("fault", ["gone", "directory", "pipe", "huge"])
def test_what_cannot_be_read_keeps_the_last_good(path, fault):
    file = live(path)
    file.load()
    path.unlink()
    if fault == "directory":
        path.mkdir()
    elif fault == "pipe":
        os.mkfifo(path)
    elif fault == "huge":
        with path.open("wb") as huge:
            huge.truncate(1 << 33)

    with capture_logs() as logs:
        assert day(file) == day(file) == 1

    assert file.problem.startswith(str(path))
    assert events(logs) == ["scoped_limits_reload_invalid"]


@pytest.mark.parametrize("fault", ["directory", "pipe"])
def test_what_cannot_be_read_costs_no_descriptors(path, fault):
    file = live(path)
    file.load()
    path.unlink()
    path.mkdir() if fault == "directory" else os.mkfifo(path)
    before = len(list(Path("/proc/self/fd").iterdir()))

    for _ in range(10):
        file.current()

    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_file_that_comes_back_unchanged_is_in_force_again(path):
    file = live(path)
    file.load()
    path.rename(path.with_suffix(".away"))
    assert (day(file), file.problem is None) == (1, False)

    path.with_suffix(".away").rename(path)

    assert (day(file), file.problem) == (1, None)


def test_at_the_start_a_bad_or_missing_file_refuses(path, tmp_path):
    path.write_bytes(rows(0))
    for file in (live(path), live(tmp_path / "none.json")):
        with pytest.raises(ConfigurationRefused):
            file.load()
        with pytest.raises(ConfigurationRefused):
            file.current()
    with pytest.raises(ConfigurationRefused, match="does not exist"):
        live(tmp_path / "none.json").load()


def test_a_missing_file_may_mean_something(tmp_path):
    path = tmp_path / "none.json"
    file = live(path, missing=ScopedLimits())
    assert file.load() == ScopedLimits()

    path.write_bytes(rows(4))
    assert day(file) == 4

    path.unlink()
    assert file.current() == ScopedLimits()


def test_a_settled_file_is_not_read_again(path, monkeypatch):
    reads = []
    file = LiveFile("x", path, lambda content: reads.append(content) or len(reads))
    settle(path)
    assert [file.current() for _ in range(3)] == [1, 1, 1]

    monkeypatch.setattr("pidispatch.files.reading._SETTLED_SECONDS", -1.0)
    path.write_bytes(b"changed")
    assert file.current() == 2
    monkeypatch.setattr("pidispatch.files.live.read", lambda _path: pytest.fail("read again"))
    assert file.current() == 2


def test_two_files_may_be_saved_in_any_order(tmp_path):
    limits, projects = tmp_path / "l.json", tmp_path / "p.json"
    limits.write_bytes(rows(1))
    projects.write_bytes(b'{"version": 1, "projects": []}')
    both = LiveFiles(
        "scoped_limits",
        [limits, projects],
        lambda *contents: parse_boundaries(*contents, limits_file="l", projects_file="p"),
    )
    assert both.load().projects.ids == set()

    limits.write_bytes(rows(2, scope="project:web", version=2))
    assert both.current().limits.rows[0].scope == "acme/web"
    assert "names a project" in both.problem

    projects.write_bytes(b'{"version": 1, "projects": [{"id": "web", "members": ["/srv/x"]}]}')
    assert both.current().limits.project_limit("web").day == 2
    assert (both.problem, both.current().projects.ids) == (None, {"web"})


def test_many_threads_see_whole_values_only(path):
    file = live(path)
    file.load()
    seen, over = set(), threading.Event()

    def look():
        while not over.is_set():
            seen.add(day(file))

    threads = [threading.Thread(target=look) for _ in range(4)]
    with capture_logs():
        for thread in threads:
            thread.start()
        for number in range(1, 60):
            draft = path.with_suffix(".draft")
            draft.write_bytes(rows(number))
            draft.rename(path)
        over.set()
        for thread in threads:
            thread.join()

    assert seen <= set(range(1, 60))
    assert file.problem is None
    assert day(file) == 59
