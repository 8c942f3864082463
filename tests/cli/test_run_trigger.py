"""`run --trigger`: a schedule started by hand is its own run, once a minute, and refused with the way out."""

import json
import os

import pytest

from pidispatch.domain.box.facts import FolderState
from tests.cli.conftest import HEAD
from tests.cli.test_run import KEPT, twice, unboxed
from tests.store.builders import row, value


@pytest.fixture
def write(bare, tmp_path, folder):
    """Write a triggers file with the schedule `nightly`; more keys of its `run` can be given."""
    path = tmp_path / "triggers.json"
    bare.setenv("PI_TRIGGERS_FILE", str(path))

    def entries(**run):
        asked = {"kind": "local", "folder": str(folder), "flow": "tidy", "task": "Tidy up", "priority": 7}
        nightly = {
            "on": {"type": "cron", "id": "nightly", "pattern": "30 2 * * *"},
            "run": {key: each for key, each in (asked | run).items() if each is not None},
        }
        fix = {"id": "fix", "on": {"type": "label", "any": ["pi"]}, "run": {"kind": "github", "flow": "fix"}}
        path.write_text(json.dumps({"triggers": [nightly, fix]}))
        return path

    entries()
    return entries


@pytest.fixture
def fire(pidispatch, gitbox, write):
    def ask(*arguments, name="nightly"):
        return pidispatch("run", "--trigger", name, *arguments)

    return ask


def test_the_entry_says_what_the_run_does(fire, write, folder, database):
    write(model="m/1", provider="p", image="i:1", maxTurns=9)

    said = fire()

    kept = row(database, KEPT)
    wanted = {
        "state": "queued",
        "flow": "tidy",
        "priority": 7,
        "model": "m/1",
        "provider": "p",
        "image": "i:1",
        "max_turns": 9,
        "trigger_type": "cron",
        "trigger_id": "nightly",
        "trigger_index": 0,
        "task": b"Tidy up",
        "folder": str(folder).encode(),
    }
    assert kept | wanted == kept
    assert kept["public_id"].startswith("manual:nightly:2")
    assert json.loads(kept["event"]) == {
        "source": "cron",
        "trigger": {"id": "nightly", "pattern": "30 2 * * *"},
        "folder": folder.name,
        "sha": HEAD,
        "scheduledFor": None,
        "previousRunAt": None,
    }
    assert said.code == 0
    assert said.out == (
        f"{kept['public_id']} is queued for local:{folder.name}\n"
        "no worker is running: start `pidispatch up` or `pidispatch worker`\n"
    )
    assert value(database, "SELECT count(*) FROM schedule_slots") == 0


def test_twice_within_a_minute_is_one_run(fire, database):
    _, second = twice(fire)

    assert second.code == 0
    assert "is this same request of this minute, nothing new is queued: queued" in second.out


def test_a_program_gets_the_document_of_a_run(fire):
    document = fire("--json").document

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
    assert document["run"]["trigger_id"] == "nightly"
    assert document["task_bytes"] == 7


def test_a_command_is_started_too(fire, write, database):
    write(flow=None, task=None, command="report weekly")

    assert fire().code == 0
    assert row(database, KEPT)["task"] == b"/report weekly"


def test_a_run_by_hand_is_explained_as_such(fire, pidispatch):
    name = fire("--json").document["public_id"]

    assert "schedule nightly, started by hand" in pidispatch("explain", name).out
    assert "\ntrigger        cron nightly\n" in pidispatch("show", name).out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("FOLDER",), "FOLDER"),
        (("--task", "x"), "--task"),
        (("--task-file", "x"), "--task-file"),
        (("--flow", "x"), "--flow"),
        (("--provider", "x"), "--provider"),
        (("--model", "x"), "--model"),
        (("--max-turns", "3"), "--max-turns"),
        (("--image", "x"), "--image"),
        (("--priority", "0"), "--priority"),
        (("--force", "--task", "x"), "--task, --force"),
    ],
)
def test_what_the_entry_says_is_not_said_again(fire, gitbox, arguments, told):
    said = fire(*arguments)

    assert said.code == 2
    assert f"--trigger does not go with {told}: the entry of the triggers file says" in unboxed(said.err)
    assert gitbox.asked == []


def test_neither_a_folder_nor_a_trigger_is_refused(pidispatch):
    assert "give FOLDER, or --trigger ID" in unboxed(pidispatch("run", "--task", "x").err)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fix", "fix is no schedule: an event of a forge starts it"),
        ("nope", "there is no schedule 'nope' in "),
        ("a\x1b[31m", "there is no schedule "),
    ],
)
def test_what_is_no_schedule_is_refused(fire, name, words):
    said = fire(name=name)

    assert (said.code, said.out) == (1, "")
    assert words in said.err
    assert "\x1b" not in said.err


def test_an_entry_that_starts_nothing_is_refused_by_its_field(fire, write):
    path = write(secrets={"TOKEN": "op://vault/item"}, github=True)

    said = fire()

    assert said.code == 1
    assert f'{path}:1: triggers[0] (id "nightly"): run.secrets, run.github ' in said.err
    assert "not enforced yet" in said.err


def test_a_file_that_a_worker_would_refuse_is_refused(fire, write):
    path = write(folder="")

    said = fire()

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f'pidispatch: {path}:1: triggers[0] (id "nightly"): run.folder ')


def test_without_a_file_there_is_nothing_to_start(pidispatch, gitbox):
    said = pidispatch("run", "--trigger", "nightly")

    assert said.code == 2
    assert "PI_TRIGGERS_FILE is not set" in said.err


def test_two_files_that_could_be_meant_are_refused(fire, tmp_path, database):
    (tmp_path / ".env").write_text("PI_TRIGGERS_FILE=/etc/other.json\n")

    said = fire()

    assert said.code == 2
    assert "in the environment and /etc/other.json in the .env beneath it" in said.err
    assert value(database, "SELECT count(*) FROM runs") == 0

    (tmp_path / ".env").write_text(f"PI_TRIGGERS_FILE={tmp_path}/triggers.json\n")
    assert fire().code == 0


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (FolderState(is_root=False, head=None, dirty=False, problem="it has no .git"), "it has no .git"),
        (FolderState(is_root=True, head=None, dirty=True, problem=None), "commit something first"),
    ],
)
def test_a_folder_without_a_commit_is_refused(fire, gitbox, database, state, words):
    gitbox.answer = state

    said = fire()

    assert said.code == 1
    assert words in said.err
    assert value(database, "SELECT count(*) FROM runs") == 0


def test_changes_in_the_folder_are_no_fault_as_at_its_instants(fire, gitbox):
    gitbox.answer = FolderState(is_root=True, head=HEAD, dirty=True, problem=None)

    assert fire().code == 0


def test_a_folder_that_is_not_there_is_refused(fire, write, tmp_path):
    write(folder=os.fspath(tmp_path / "gone"))

    said = fire()

    assert said.code == 1
    assert "gone' does not exist" in said.err


def test_a_run_has_the_hosts_of_its_entry(fire, write, database):
    write(egress=["a.example", "@pypi"])

    assert fire().code == 0
    assert row(database, KEPT)["egress_hosts"] == ["a.example", "@pypi"]
