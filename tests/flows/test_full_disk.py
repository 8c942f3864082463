"""A full disk, Postgres's or the host's: nothing half written, one correct record once there is room again."""

import json

import psycopg
import pytest
from sqlalchemy import text

from pidispatch.domain.providers.calls import CallEnd
from pidispatch.errors import DatabaseUnavailable
from pidispatch.runtime.jobfiles import JobFiles
from tests.flows.site import Site
from tests.store.builders import a_run, after_a_look, assert_ledger_is_exact, row, value
from tests.support.calls import opened
from tests.support.disks import small_disk

STATE = "SELECT state FROM runs WHERE id = :id"
RECORD = "SELECT outcome, reason, attempt, exit_code, calls, tokens_out, reported ->> 'reason' AS said FROM runs WHERE id = :id"
COMPLETED = {
    "outcome": "completed",
    "reason": "completed",
    "attempt": 1,
    "exit_code": 0,
    "calls": 1,
    "tokens_out": 20,
    "said": "all-done",
}
EXIT_LINE = json.dumps({"event": "exit", "jobId": "x", "code": 0, "reason": "all-done", "turns": 1})
# What Postgres says when a file cannot grow: class 53, as any of its writes may meet it.
NO_SPACE = """
CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$
"""


def fill(site, table, action, when="true"):
    with site.database.transaction() as connection:
        connection.execute(text(NO_SPACE))
        connection.execute(
            text(
                f"CREATE TRIGGER no_space BEFORE {action} ON {table} FOR EACH ROW WHEN ({when})"
                " EXECUTE FUNCTION no_space()"
            )
        )


def make_room(site):
    with site.database.transaction() as connection:
        connection.execute(text("DROP FUNCTION no_space CASCADE"))


def ended_box(site):
    """A run that did its work: one call, an exit line, exit code 0."""
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    call = opened(site.ledger, run_id, 1, provider="scripted", model="happy", api="openai-completions")
    site.ledger.settle_call(call, CallEnd(200, "stop", tokens_in=1000, tokens_out=20))
    site.boxes.finish(container, 0, f"\n{EXIT_LINE}\n".encode())
    return run_id


def finish_later(site):
    """The next ring of the bell that went unheard, ten seconds later."""
    site.offset = "11 seconds"
    site.look()
    site.hear_finishes()


@pytest.mark.parametrize(
    ("table", "action", "when"),
    [
        ("runs", "UPDATE", "NEW.state = 'finishing'"),
        ("run_attempts", "UPDATE", "NEW.reported IS NOT NULL AND OLD.reported IS NULL"),
        ("scopes", "UPDATE", "true"),
        ("reservations", "UPDATE", "true"),
        ("run_usage", "INSERT", "true"),
        ("run_attempts", "UPDATE", "NEW.ended_at IS NOT NULL"),
        ("runs", "UPDATE", "NEW.state = 'ended'"),
        ("run_payloads", "UPDATE", "true"),
    ],
)
def test_a_disk_that_is_full_at_any_write_of_an_ending_leaves_one_correct_record(site, table, action, when):
    run_id = ended_box(site)
    fill(site, table, action, when)

    site.look()
    with pytest.raises(DatabaseUnavailable):
        site.hear_finishes()
    assert value(site.database, STATE, id=run_id) in {"running", "finishing"}
    assert not site.nothing_is_left()

    make_room(site)
    finish_later(site)
    assert row(site.database, RECORD, id=run_id) == COMPLETED
    assert value(site.database, "SELECT sum(calls) FROM run_usage") == 1
    assert value(site.database, "SELECT used FROM spend_windows") == 1
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


@pytest.mark.parametrize(
    ("table", "action", "when"),
    [
        ("spend_windows", "INSERT", "true"),
        ("reservations", "INSERT", "true"),
        ("run_attempts", "INSERT", "true"),
        ("runs", "UPDATE", "NEW.state = 'admitted'"),
    ],
)
def test_a_disk_that_is_full_during_an_admission_admits_nothing(site, table, action, when):
    run_id = a_run(site.database)
    fill(site, table, action, when)

    with pytest.raises(DatabaseUnavailable):
        site.gate.admit()

    assert value(site.database, STATE, id=run_id) == "queued"
    make_room(site)
    after_a_look(site.database)
    assert site.gate.admit().attempt == 1
    assert_ledger_is_exact(site.database)


@pytest.mark.parametrize("when", ["true", "NEW.state = 'preparing'", "NEW.state = 'running'"])
def test_a_disk_that_is_full_while_a_run_is_prepared_costs_it_nothing(site, when):
    run_id = a_run(site.database)
    claim = site.gate.admit()
    fill(site, "runs", "UPDATE", when)
    site.launcher.start(claim)
    make_room(site)

    site.offset = "6 seconds"  # it is in nobody's hands any more
    site.look()
    assert value(site.database, STATE, id=run_id) == "deferred"
    assert value(site.database, "SELECT used FROM spend_windows") == 0
    with site.database.transaction() as connection:
        connection.execute(text("UPDATE runs SET not_before = NULL"))
    site.look()
    assert site.nothing_is_left()

    again, _ = site.started()
    assert (again.run_id, again.attempt) == (run_id, 2)
    assert_ledger_is_exact(site.database)


def test_a_real_full_tablespace_leaves_one_correct_record(site, services, short_directory):
    run_id = ended_box(site)
    owner = services.postgres.data_dir.stat().st_uid
    short_directory.chmod(0o755)
    with small_disk(short_directory / "small", owner=owner) as disk, services.administrator() as server:
        server.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'")
        asked = {"host": str(services.postgres.run_dir), "user": server.info.user}
        with psycopg.connect(**asked, dbname=site.database.url.database, autocommit=True) as here:
            here.execute("ALTER TABLE run_usage SET TABLESPACE small")
            disk.fill()

            site.look()
            with pytest.raises(DatabaseUnavailable, match="No space left on device"):
                site.hear_finishes()
            assert value(site.database, STATE, id=run_id) == "finishing"

            disk.free()
            finish_later(site)
            assert row(site.database, RECORD, id=run_id) == COMPLETED
            here.execute("ALTER TABLE run_usage SET TABLESPACE pg_default")
        server.execute("DROP TABLESPACE small")


def test_a_host_that_is_full_while_inputs_are_laid_out_makes_the_run_wait_with_nothing_charged(
    database, tmp_path
):
    with small_disk(tmp_path / "jobs") as disk:
        site = Site(database, files=JobFiles(disk.path))
        first = a_run(database)
        disk.fill()

        site.launcher.start(site.gate.admit())

        waiting = row(database, "SELECT state, cause, attempt FROM runs WHERE id = :id", id=first)
        assert waiting == {"state": "deferred", "cause": "disk-low", "attempt": 1}
        assert value(database, "SELECT used FROM spend_windows") == 0
        assert site.boxes.made == []
        assert not site.doors.directories

        disk.free()
        assert list(site.files.leftovers()) == []
        with database.transaction() as connection:
            connection.execute(text("UPDATE runs SET not_before = NULL"))
        claim, _ = site.started()
        assert (claim.run_id, claim.attempt) == (first, 2)
        assert_ledger_is_exact(database)
