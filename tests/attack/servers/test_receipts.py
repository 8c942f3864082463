"""What was committed is told, whatever happens before the rest of the receipt is read or written."""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from pidispatch.app import submit
from pidispatch.app.verbs import control
from pidispatch.errors import DatabaseUnavailable, DatabaseUnfit
from pidispatch.store.admission import pauses
from tests.cli.lives import DONE, begin, end
from tests.store.builders import a_run, value
from tests.support.scale import NIGHTLY

ROOT = Path(__file__).parents[3]
GONE = DatabaseUnavailable("server closed the connection unexpectedly")
STANDBY = DatabaseUnfit("it is a standby and takes no writes")
MAIN = "from pidispatch.entrypoints.cli import main; main()"


def goes_away(bare, module, name, error=GONE):
    def gone(*_, **__):
        raise error

    bare.setattr(module, name, gone)


@pytest.fixture
def run(pidispatch, gitbox, folder):
    return lambda *more: pidispatch("run", str(folder), "--task", "receipt", *more)


@pytest.mark.parametrize("error", [GONE, STANDBY], ids=["gone", "standby"])
def test_a_request_that_is_stored_is_named_though_its_run_cannot_be_read(run, bare, database, error):
    goes_away(bare, submit.history, "find_run", error)

    said = run()

    name = value(database, "SELECT public_id FROM runs")
    assert said.code == 0
    assert said.out == f"{name} is stored\n"
    assert f"how it stands could not be read: {error}; pidispatch show {name}" in said.err


def test_a_request_is_queued_though_the_queue_cannot_be_read(run, bare, database):
    goes_away(bare, submit, "standing_of")

    said, document = run(), run("--json").document

    assert said.code == 0
    assert "is queued for" in said.out
    assert "how it stands could not be read" in said.err
    assert document["public_id"] == value(database, "SELECT public_id FROM runs")
    assert (document["queue"], document["duplicate"]) == (None, True)
    assert document["unread"] == str(GONE)


def test_who_waits_for_a_run_that_cannot_be_read_is_told_its_name(run, bare, database, monkeypatch):
    monkeypatch.setattr(submit, "PATIENCE_SECONDS", -1.0)
    goes_away(bare, submit.history, "find_run")

    said = run("--wait")

    name = value(database, "SELECT public_id FROM runs")
    assert said.code == 1
    assert f"{name} is stored, and how it ends could not be read" in said.err


@pytest.mark.parametrize("arguments", [("pause",), ("resume",), ("pause", "--now")], ids=" ".join)
def test_a_pause_is_told_though_nothing_can_be_counted(pidispatch, bare, database, arguments):
    bare.setattr(pauses, "STANDING", pauses.text("SELECT 1 FROM pg_terminate_backend(pg_backend_pid())"))

    said = pidispatch(*arguments)

    assert said.code == 0
    assert said.out.startswith("everything ")
    assert "how it stands could not be read" in said.err
    assert value(database, "SELECT count(*) FROM audit_log") == 1


def test_a_cancel_is_named_though_nobody_can_see_its_end(pidispatch, bare, database):
    waiting = a_run(database)
    goes_away(bare, control.history, "run_record")

    said = pidispatch("cancel", "--all")

    assert said.code == 0  # a run that waited ends with the cancel itself
    assert "and is gone" in said.out
    assert value(database, "SELECT reason FROM runs WHERE id = :id", id=waiting) == "operator-cancel"


def test_a_cancel_of_a_box_that_nobody_can_see_is_not_taken_for_gone(pidispatch, bare, database, monkeypatch):
    a_run(database)
    claim = begin(database)
    monkeypatch.setattr(control, "WAIT_SECONDS", 0.0)
    goes_away(bare, control.history, "run_record")

    said = pidispatch("cancel", claim.public_id)

    assert said.code == 1
    assert f"{claim.public_id} was running and was asked to stop" in said.out
    assert "how it stands could not be read" in said.err


def test_a_repeat_is_named(pidispatch, bare, database):
    run_id = a_run(database)
    end(database, begin(database), DONE)
    goes_away(bare, control, "standing_of")
    said = pidispatch("requeue", str(run_id))
    assert said.code == 0
    assert "is queued for" in said.out
    assert "how it stands could not be read" in said.err


def test_a_grant_is_named(pidispatch, bare, database, monkeypatch):
    run_id = a_run(database)
    made = control.granting.Granted(99, "local-99-granted")
    monkeypatch.setattr(control.granting, "grant", lambda *_, **__: made)
    goes_away(bare, control.history, "run_record")

    said = pidispatch("grant", str(run_id), "+1")

    assert said.code == 0
    assert said.out.startswith("local-99-granted goes on with ")
    assert "how it stands could not be read" in said.err


# -- what cannot be written


@pytest.fixture
def shell(pidispatch, database):
    """`shell(script)`: a shell in which $P is the command line, with 200 runs to show; what it returned and said."""
    for _ in range(200):
        a_run(database)

    def run(script):
        environment = os.environ | {"PYTHONPATH": str(ROOT), "P": f'{sys.executable} -c "{MAIN}"'}
        return subprocess.run(
            ["bash", "-c", script.replace("$P", f"'{sys.executable}' -c '{MAIN}'")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("arguments", ["runs --limit 200", "runs --limit 200 --json", "status", "config"])
def test_a_reader_that_leaves_is_141_and_no_word(shell, arguments):
    done = shell(f"$P {arguments} | true; echo ${{PIPESTATUS[0]}}")

    assert done.stdout == "141\n"
    assert done.stderr == ""


COMMANDS, PLACES = ("runs --limit 200", "runs --json", "status", "config"), (">/dev/full", ">&-")
EACH_ONCE = list(zip(COMMANDS, PLACES * 2, strict=True))


@pytest.mark.parametrize(("arguments", "where"), list(product(COMMANDS, PLACES)) if NIGHTLY else EACH_ONCE)
def test_output_that_cannot_be_written_is_one_sentence(shell, arguments, where):
    done = shell(f"$P {arguments} {where}")

    assert done.returncode == 1
    assert done.stderr.startswith("pidispatch: the output cannot be written: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-", "<&-", "<&- 2>&-"])
def test_a_closed_stream_beside_it_ends_no_command(shell, where):
    done = shell(f"$P status {where}")

    assert done.returncode == 0
    assert "health" in done.stdout


def test_a_closed_output_takes_no_connection_of_the_database(shell):
    """Else the socket would be descriptor 1, and the first line would be written into it."""
    done = shell("$P resume >&-; $P status")

    assert "the output cannot be written" in done.stderr
    assert "queue" in done.stdout
