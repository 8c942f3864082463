"""`run`: what is asked for becomes a row, byte for byte, and the answer is true."""

import io
import os
import sys

import pytest

from pidispatch.domain.task import TASK_LIMIT
from pidispatch.errors import EngineUnavailable, ImageMissing
from pidispatch.ports import FolderState
from tests.cli.conftest import HEAD, SOMEBODY
from tests.cli.lives import FAILED, begin, end
from tests.store.builders import a_host, row, value
from tests.support.minutes import early_in_a_minute

KEPT = "SELECT r.*, p.* FROM runs r JOIN run_payloads p ON p.run_id = r.id"


def unboxed(text):
    """The words of a complaint that was drawn into a frame."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture
def run(pidispatch, gitbox, folder):
    """`run(…)` asks for a run in the test's folder."""

    def ask(*arguments):
        return pidispatch("run", str(folder), *arguments)

    return ask


def test_a_request_becomes_a_queued_run(run, gitbox, folder, database):
    said = run("--task", "do it", "--flow", "fix-1", "--max-turns", "3", "--priority", "5", "--model", "m/1")

    kept = row(database, KEPT)
    wanted = {
        "state": "queued",
        "flow": "fix-1",
        "max_turns": 3,
        "priority": 5,
        "model": "m/1",
        "provider": None,
    }
    assert kept | wanted == kept
    assert (kept["folder"], kept["task"], kept["pinned_host"]) == (str(folder).encode(), b"do it", "h1")
    uid = SOMEBODY if os.geteuid() == 0 else os.geteuid()
    assert [(path, owner, image) for path, owner, _, image in gitbox.asked] == [
        (str(folder), uid, "pi-job:latest")
    ]
    assert said.code == 0
    assert said.out == (
        f"{kept['public_id']} is queued for local:{folder.name}\n"
        "no worker is running: start `pidispatch up` or `pidispatch worker`\n"
    )


def test_what_bounds_the_run_is_in_its_row(run, database):
    assert run("--task", "do it", "--max-cost", "0.50", "--exclude-tools", "bash,write").code == 0

    kept = row(database, KEPT)
    assert (kept["cost_cap_micros"], kept["cost_cap_asked"]) == (500_000, 500_000)
    assert kept["excluded_tools"] == ["bash", "write"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--max-cost", "0"),
        ("--max-cost", "1e2"),
        ("--max-cost", "$1"),
        ("--max-cost", "1.0000001"),
        ("--exclude-tools", ""),
        ("--exclude-tools", "Bash"),
        ("--exclude-tools", "bash, write"),
        ("--exclude-tools", "bash,bash"),
        ("--exclude-tools", "nosuch"),
    ],
)
def test_a_bound_that_means_nothing_is_refused(run, database, option, value):
    said = run("--task", "do it", option, value)

    assert said.code == 2
    assert option in unboxed(said.err)
    assert row(database, "SELECT count(*) AS runs FROM runs") == {"runs": 0}


def test_a_request_with_other_bounds_is_another_request(run, database):
    early_in_a_minute()
    cheaper = ("--max-cost", "1"), ("--max-cost", "2")
    for bounds in ((), *cheaper, ("--exclude-tools", "bash"), ("--max-turns", "3")):
        assert " is queued for " in run("--task", "do it", *bounds).out
        assert "nothing new is queued" in run("--task", "do it", *bounds).out

    assert value(database, "SELECT count(*) FROM runs") == 5


def test_a_program_gets_one_document_with_keys_that_stay(run, database):
    said = run("--task", "do it", "--json")

    document = said.document
    assert list(document) == [
        "public_id",
        "duplicate",
        "coalesced",
        "rung",
        "task_bytes",
        "task_kept_bytes",
        "queue",
        "run",
        "unread",
    ]
    assert list(document["queue"]) == ["workers", "workers_here", "paused_since"]
    assert document["public_id"] == value(database, "SELECT public_id FROM runs")
    assert (document["duplicate"], document["rung"], document["task_bytes"]) == (False, True, 5)
    assert document["run"]["state"] == "queued"


def test_it_says_how_many_workers_live_here(run, database):
    a_host(database)
    assert run("--task", "one").out.endswith("\n1 worker is running\n")

    a_host(database, host="h2")
    assert run("--task", "two").out.endswith("\n1 worker is running\n")


def test_a_worker_of_another_host_does_not_count(run, database):
    a_host(database, host="h2")

    assert "no worker of h1 is running: start `pidispatch up`" in run("--task", "one").out


def test_a_pause_of_everything_is_said(run, database):
    a_host(database)
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE scopes SET paused_at = now() WHERE key = '*'")

    assert "1 worker is running, but everything is paused since 2" in run("--task", "one").out


def test_a_redis_that_is_away_loses_nothing(run, bare, database):
    bare.setenv("REDIS_URL", "unix:///nonexistent/valkey.sock")

    said = run("--task", "do it")

    assert said.code == 0
    assert "no worker was woken: a worker finds the run by itself" in said.err
    assert value(database, "SELECT state FROM runs") == "queued"


def twice(run, *arguments):
    """Two answers of one minute."""
    for _ in range(2):
        first, second = run(*arguments), run(*arguments)
        if first.out.split()[0] == second.out.split()[0]:
            break
    return first, second


def test_the_same_request_of_one_minute_is_told_as_the_run_that_stands(run, database):
    _, second = twice(run, "--task", "do it")

    assert second.code == 0
    name = second.out.split()[0]
    assert second.out.startswith(
        f"{name} is this same request of this minute, nothing new is queued: queued · place "
    )
    assert f"{name} is queued" not in second.out
    assert value(database, "SELECT count(*) FROM runs WHERE public_id = :name", name=name) == 1


def test_a_duplicate_is_told_although_its_run_has_changed_the_folder(run, gitbox):
    for _ in range(2):
        gitbox.answer = FolderState(is_root=True, head=HEAD, dirty=False, problem=None)
        first = run("--task", "do it")
        gitbox.answer = FolderState(is_root=True, head=HEAD, dirty=True, problem=None)
        second = run("--task", "do it")
        if second.code == 0:  # else a minute began between them
            break

    assert second.out.startswith(f"{first.out.split()[0]} is this same request of this minute")


def test_a_duplicate_of_an_ended_run_says_how_that_ended(run, database):
    for _ in range(2):
        first = run("--task", "do it")
        end(database, begin(database), FAILED, code=1)
        second = run("--task", "do it")
        if first.out.split()[0] == second.out.split()[0]:
            break

    assert second.out.endswith(
        "nothing new is queued: failed: infra (agent-died) · 0 turns · 0 tokens · 0 s\n"
    )
    assert "worker" not in second.out


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"one\0two", id="nul"),
        pytest.param(b"a lone \xed\xa0\xbd surrogate", id="surrogate"),
        pytest.param(
            "\u0439\u4f60\u597d \u0645\u0631\u062d\u0628\u0627 \U0001f600 \u202eabc".encode(), id="scripts"
        ),
        pytest.param(bytes(range(256)), id="every-byte"),
    ],
)
def test_a_task_in_a_file_arrives_as_its_bytes(run, tmp_path, database, content):
    task = tmp_path / "task"
    task.write_bytes(content)

    assert run("--task-file", str(task)).code == 0
    kept = row(database, KEPT)
    assert (kept["task"], kept["task_bytes"]) == (content, len(content))


def test_a_task_on_the_command_line_arrives_as_its_bytes(run, database):
    content = "\u0939\u093f\u0928\u094d\u0926\u0940 ".encode() + b"\xff\xfe\x80 end"

    assert run("--task", os.fsdecode(content)).code == 0
    assert row(database, KEPT)["task"] == content


def test_a_task_comes_from_standard_input(run, bare, database):
    class Stdin:
        buffer = io.BytesIO(b"from a pipe\0")

    bare.setattr(sys, "stdin", Stdin)

    assert run("--task-file", "-").code == 0
    assert row(database, KEPT)["task"] == b"from a pipe\0"


def test_a_long_task_is_cut_on_a_character_and_the_person_is_told(run, tmp_path, database):
    task = tmp_path / "task"
    task.write_text("\u20ac" * 700_000)  # 2,100,000 bytes

    said = run("--task-file", str(task), "--json")

    assert "the task has 2,100,000 bytes: it is cut visibly after 1,048,576" in said.err
    kept = row(database, KEPT)
    assert kept["task_bytes"] == 2_100_000
    assert len(kept["task"]) == said.document["task_kept_bytes"] == TASK_LIMIT - TASK_LIMIT % 3
    kept["task"].decode()


def test_a_task_beyond_all_measure_is_refused(run, tmp_path, database):
    task = tmp_path / "task"
    with task.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)

    said = run("--task-file", str(task))

    assert said.code == 2
    assert "holds more than 64 MiB" in unboxed(said.err)
    assert value(database, "SELECT count(*) FROM runs") == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "exactly one of --task and"),
        (("--task", "a", "--task-file", "b"), "exactly one of --task and"),
        (("--task", " \n"), "the task is empty"),
        (("--task-file", "/nonexistent/task"), "No such file"),
        (("--task-file", "/tmp"), "Is a directory"),
        (("--task", "a", "--flow", "Fix"), "a-z, 0-9"),
        (("--task", "a", "--flow", "-x"), "a-z, 0-9"),
        (("--task", "a", "--flow", "x" * 65), "a-z, 0-9"),
        (("--task", "a", "--max-turns", "0"), "max-turns"),
        (("--task", "a", "--model", "a b"), "without spaces"),
        (("--task", "a", "--model", "--x"), "begin with a dash"),
        (("--task", "a", "--image", "\udcff"), "without spaces"),
        (("--task", "a", "--priority", "101"), "priority"),
    ],
)
def test_a_command_line_that_cannot_be_is_refused(run, gitbox, database, arguments, words):
    said = run(*arguments)

    assert said.code == 2
    assert words in unboxed(said.err)
    assert gitbox.asked == []
    assert value(database, "SELECT count(*) FROM runs") == 0


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (FolderState(is_root=False, head=None, dirty=False, problem="it has no .git"), "it has no .git"),
        (FolderState(is_root=True, head=None, dirty=True, problem=None), "commit something first"),
        (FolderState(is_root=True, head=HEAD, dirty=True, problem=None), "commit them, or use --force"),
    ],
)
def test_a_folder_that_will_not_do_is_refused_with_the_way_out(run, gitbox, database, state, words):
    gitbox.answer = state

    said = run("--task", "do it")

    assert said.code == 1
    assert said.err.startswith("pidispatch: ")
    assert words in said.err
    assert said.err.count("\n") == 1
    assert value(database, "SELECT count(*) FROM runs") == 0


def test_a_dirty_folder_is_taken_by_force(run, gitbox, database):
    gitbox.answer = FolderState(is_root=True, head=HEAD, dirty=True, problem=None)

    assert run("--task", "do it", "--force").code == 0
    assert value(database, "SELECT count(*) FROM runs") == 1


def test_a_folder_that_is_none_is_refused_on_one_line(pidispatch, gitbox, tmp_path):
    file = tmp_path / "a\x1b[31mfile\n"
    file.touch()

    for path, words in ((str(file), "is not a directory"), ("/nonexistent", "does not exist"), ("", "")):
        said = pidispatch("run", path, "--task", "do it")
        assert said.code == 1
        assert words in said.err
        assert said.err.count("\n") == 1
        assert "\x1b" not in said.err


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (
            ImageMissing("create the box: No such image"),
            "no image pi-job:latest; run `pidispatch image build`",
        ),
        (EngineUnavailable("open the engine's API: refused"), "the Docker engine does not answer"),
    ],
)
def test_an_engine_that_cannot_ask_git_is_said(run, gitbox, database, fault, words):
    gitbox.fault = fault

    said = run("--task", "do it")

    assert said.code == 1
    assert words in said.err
    assert value(database, "SELECT count(*) FROM runs") == 0


def test_hosts_of_a_request_are_those_of_its_run(run, database):
    said = run("--task", "do it", "--egress", "a.example:8443", "--egress", "@npm")

    assert said.code == 0
    assert row(database, KEPT)["egress_hosts"] == ["a.example:8443", "@npm"]


@pytest.mark.parametrize("host", ["*.example", "10.0.0.1", "https://a.example"])
def test_a_host_that_is_none_is_refused(run, host):
    said = run("--task", "do it", "--egress", host)

    assert said.code == 2
    assert host in unboxed(said.err)
