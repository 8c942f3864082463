"""`cancel`, `requeue` and `forget-host`: what they say, and how they end."""

import io
import time

import pytest
from sqlalchemy import text

from pidispatch.app.verbs import control
from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import BoxEnd, Outcome
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.cli.lives import begin, call, end, meanwhile
from tests.store.builders import HOST, a_host, a_run, row, value
from tests.support.minutes import early_in_a_minute

CANCELLED = ["public_id", "was", "had_ended", "gone", "run", "unread"]


def name_of(database, run_id):
    return str(value(database, "SELECT public_id FROM runs WHERE id = :id", id=run_id))


def silence(database):
    with database.transaction() as connection:
        for table in ("hosts", "workers"):
            connection.execute(text(f"UPDATE {table} SET heartbeat_at = now() - interval '5 minutes'"))


@pytest.fixture
def impatient(monkeypatch):
    """Nobody stops the boxes in these tests, so nobody waits long for it."""
    monkeypatch.setattr(control, "WAIT_SECONDS", 0.5)


def stops_when_asked(database, claim):
    """What a reconciler and a finisher would do."""

    def act():
        runs = Runs(database)
        for _ in range(200):
            if runs.facts(claim.run_id).stop_reason is not None:
                break
            time.sleep(0.05)
        finishing = runs.finishing(runs.facts(claim.run_id).claim)
        assert Endings(database).end(finishing, End(Outcome.POLICY, "operator-cancel"), BoxEnd(exit_code=143))

    return act


def test_a_run_that_waits_is_gone_at_once(pidispatch, database):
    run_id = a_run(database)

    said = pidispatch("cancel", name_of(database, run_id), "--reason", "not needed")

    name = name_of(database, run_id)
    assert (said.code, said.err) == (0, "")
    assert said.out == f"{name} was queued and is gone: policy: operator-cancel\n"
    written = row(database, "SELECT actor, detail FROM audit_log")
    assert written["actor"].endswith("@h1")
    assert written["detail"] == {"state": "queued", "reason": "not needed"}


def test_a_run_that_is_stopped_in_time_is_reported_gone(pidispatch, database, services):
    a_run(database)
    claim = begin(database)

    with meanwhile(stops_when_asked(database, claim)):
        said = pidispatch("cancel", claim.public_id, "--json")

    assert said.code == 0
    assert list(said.document) == CANCELLED
    assert (said.document["was"], said.document["gone"]) == ("running", True)
    assert said.document["run"]["reason"] == "operator-cancel"
    assert services.valkey.ask("LLEN pidispatch:ends.h1") == b":1\r\n"  # the reconciler is told at once


def test_a_run_that_does_not_stop_is_reported_so_and_stays_cancelled(pidispatch, database, impatient):
    a_run(database)
    claim = begin(database)

    said = pidispatch("cancel", claim.public_id)

    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"{claim.public_id} is still stopping: running: operator-cancel; ")
    assert Runs(database).facts(claim.run_id).stop_reason == "operator-cancel"


def test_a_run_that_has_ended_is_left_alone(pidispatch, database):
    a_run(database)
    claim = begin(database)
    end(database, claim)

    said = pidispatch("cancel", claim.public_id)

    assert (said.code, said.out) == (1, "")
    assert said.err == f"{claim.public_id} had ended already: completed\n"
    assert value(database, "SELECT outcome FROM runs") == "completed"
    assert pidispatch("cancel", "nobody").code == 1


@pytest.mark.parametrize("arguments", [(), ("x", "--all")])
def test_it_is_one_run_or_all(pidispatch, database, arguments):
    assert pidispatch("cancel", *arguments).code == 2


def test_all_is_everything_that_has_not_ended(pidispatch, database, impatient):
    a_run(database)
    claim = begin(database)
    waiting = [name_of(database, a_run(database)) for _ in range(2)]

    said = pidispatch("cancel", "--all", "--json")

    assert said.code == 1
    assert list(said.document) == ["asked", "gone", "still_stopping", "cancelled"]
    assert said.document["asked"] == 3
    assert said.document["gone"] == waiting
    assert said.document["still_stopping"] == [claim.public_id]

    end(database, claim)
    a_run(database)
    assert pidispatch("cancel", "--all").out.endswith("\n1 run confirmed gone\n")
    assert pidispatch("cancel", "--all").out == "no run was waiting or going on\n"


def test_a_cancel_needs_no_redis(command, bare, database_url, database, impatient):
    bare.setenv("DATABASE_URL", database_url)
    bare.setenv("REDIS_URL", "redis://127.0.0.1:1")
    a_run(database)
    claim = begin(database)

    said = command("cancel", claim.public_id)

    assert "is still stopping" in said.err
    assert Runs(database).facts(claim.run_id).stop_reason == "operator-cancel"


def test_a_run_is_repeated_and_shows_what_it_repeats(pidispatch, database, services, tmp_path):
    a_host(database)
    old = a_run(database)
    claim = begin(database)
    end(database, claim)
    name = name_of(database, old)
    early_in_a_minute()

    said = pidispatch("requeue", name)

    new = value(database, "SELECT public_id FROM runs WHERE requeue_of = :id", id=old)
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0].startswith(f"{new} repeats {name} and is queued for local:")
    assert said.out.splitlines()[1] == "1 worker is running"
    assert services.valkey.ask("LLEN pidispatch:runs.h1") == b":1\r\n"
    assert f"repeats        {name}" in pidispatch("show", str(new)).out
    assert pidispatch("explain", str(new)).out.splitlines()[1] == f"repeats {name}"
    assert pidispatch("runs", "--json").document[0]["requeue_of"] == name

    again = pidispatch("requeue", name, "--json").document
    assert (again["public_id"], again["duplicate"], again["rung"]) == (new, True, False)
    assert pidispatch("requeue", name).out.startswith(f"{new} is this same request of this minute")

    (tmp_path / "task").write_bytes(b"another task")
    other = pidispatch("requeue", name, "--task-file", str(tmp_path / "task"), "--json").document
    assert list(other) == ["public_id", "requeue_of", "duplicate", "rung", "run", "unread"]
    assert other["public_id"] != new
    assert value(database, "SELECT count(*) FROM run_payloads WHERE task = 'another task'") == 1


def test_what_cannot_be_repeated_is_refused_with_the_way_out(pidispatch, database):
    run_id = a_run(database)
    name = name_of(database, run_id)
    assert pidispatch("requeue", name).err == f"pidispatch: {name} has not ended: it is queued\n"

    pidispatch("cancel", name)
    with database.transaction() as connection:
        connection.execute(text("DELETE FROM run_payloads"))
    said = pidispatch("requeue", name)

    assert said.code == 1
    assert "were deleted seven days after its end; ask anew with `pidispatch run`" in said.err
    assert pidispatch("requeue", name, "--task-file", "/no/such/file").code == 2


def test_a_silent_host_is_shown_and_given_up(pidispatch, database):
    a_run(database)
    claim = begin(database)
    call(database, claim)
    a_run(database)
    assert pidispatch("forget-host", HOST, "--yes").code == 1
    silence(database)

    assert f"{claim.public_id}" in pidispatch("runs").out
    assert "running: unreachable" in pidispatch("runs").out
    assert "running: unreachable" in pidispatch("show", claim.public_id).out
    assert "1 run on h1, silent since 2" in pidispatch("status").out
    assert pidispatch("status", "--json").document["hosts"][0]["unreachable"] == 1

    said = pidispatch("forget-host", HOST, "--yes")

    assert said.code == 0
    assert said.out.splitlines() == [
        f"{claim.public_id} is lost",
        "h1 is forgotten: 1 run lost",
        "1 run still waiting for it alone: `pidispatch cancel` ends those too",
    ]
    assert pidispatch("show", claim.public_id, "--json").document["run"]["reason"] == "lost"
    assert pidispatch("forget-host", "nobody", "--yes").err.startswith(
        "pidispatch: there is no host 'nobody'"
    )


def test_a_host_is_not_given_up_unasked(pidispatch, database, monkeypatch):
    a_run(database)
    claim = begin(database)
    silence(database)
    monkeypatch.setattr("sys.stdin", io.StringIO())

    said = pidispatch("forget-host", HOST)

    assert said.code == 1
    assert f"{claim.public_id} will be lost" in said.err
    assert value(database, "SELECT state FROM runs WHERE id = :id", id=claim.run_id) == "running"
