"""`grant`: a run that stopped at a cap goes on."""

import pytest
from sqlalchemy import text

from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import BoxEnd, Outcome
from pidispatch.domain.runs.session import KeptSession, NotKept
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from tests.cli.lives import begin
from tests.store.builders import a_run, value

AT_THE_CAP = End(Outcome.POLICY, "cost-cap")
SESSION = KeptSession(b"x" * 1234, "1.6.0")


def a_stopped_run(database, session=SESSION, verdict=AT_THE_CAP):
    """The public id of a run that ended at its cap of dollars."""
    a_run(database, folder="/repos/web")
    begun = begin(database)
    claim = Runs(database).finishing(begun)
    assert Endings(database).end(claim, verdict, BoxEnd(exit_code=2), session=session)
    return claim.public_id


def the_new_one(database):
    return value(database, "SELECT public_id FROM runs WHERE continues IS NOT NULL")


def test_a_run_is_given_more_and_both_say_so(pidispatch, database, services):
    old = a_stopped_run(database)

    said = pidispatch("grant", old, "+2.00")

    new = the_new_one(database)
    assert (said.code, said.err) == (0, "")
    first, second = said.out.splitlines()
    assert first == f"{new} goes on with {old} and may spend $2.00: queued for local:web"
    assert second == "1 worker is running"
    assert services.valkey.ask("LLEN pidispatch:runs.h1") == b":1\r\n"
    assert f"goes on with the work of {old}" in pidispatch("show", str(new)).out
    assert f"stopped at its cap of cost; it went on as {new}" in pidispatch("show", old).out
    assert pidispatch("explain", str(new)).out.splitlines()[1] == f"goes on with the work of {old}"


@pytest.mark.parametrize(
    ("amount", "micros"), [("+2", 2_000_000), ("2.00", 2_000_000), ("+0.000001", 1), ("1000000", 10**12)]
)
def test_an_amount_is_taken_exactly(pidispatch, database, amount, micros):
    made = pidispatch("grant", a_stopped_run(database), amount, "--json").document

    assert list(made) == ["public_id", "continues", "cost_cap_micros", "rung", "run", "unread"]
    assert made["cost_cap_micros"] == micros
    assert made["run"]["continues"] == made["continues"]
    assert value(database, "SELECT cost_cap_micros FROM runs WHERE continues IS NOT NULL") == micros


@pytest.mark.parametrize(
    "amount", ["0", "+0", "++2", "+-2", "2.0000001", "$2", "two", "1000000.01", "", "+", "2e3"]
)
def test_what_is_no_amount_is_refused(pidispatch, database, amount):
    said = pidispatch("grant", a_stopped_run(database), amount)

    assert said.code == 2
    assert value(database, "SELECT count(*) FROM runs") == 1


def test_the_stopped_run_says_what_is_kept_and_how_to_go_on(pidispatch, database):
    old = a_stopped_run(database)

    for command in ("show", "explain"):
        out = " ".join(pidispatch(command, old).out.split())
        assert "stopped at its cap of cost; its session (1,234 bytes) is kept until 2" in out
        assert f"`pidispatch grant {old} +2.00` goes on from there" in out
    shown = pidispatch("show", old, "--json").document["session"]
    assert list(shown) == ["stopped_at", "resumed", "reason", "kept_bytes", "kept_until", "continued_by"]
    assert (shown["stopped_at"], shown["kept_bytes"], shown["continued_by"]) == ("cost", 1234, [])


def test_a_session_that_is_not_kept_is_told_with_the_way_out(pidispatch, database):
    old = a_stopped_run(database, NotKept("too-large"))

    assert "its session is not kept (too-large)" in pidispatch("show", old).out
    said = pidispatch("grant", old, "+1")
    assert said.code == 1
    assert "its session is not kept (too-large)" in said.err
    assert f"pidispatch requeue {old}" in said.err


def test_a_second_grant_names_the_run_that_goes_on(pidispatch, database):
    old = a_stopped_run(database)
    pidispatch("grant", old, "+1")

    said = pidispatch("grant", old, "+1")

    assert said.code == 1
    assert f"goes on already, as {the_new_one(database)}" in said.err


def test_a_run_that_ended_otherwise_is_not_granted_more(pidispatch, database):
    old = a_stopped_run(database, None, End(Outcome.FAILED, "infra"))

    assert "did not stop at a cap of its own, it ended failed: infra" in pidispatch("grant", old, "+1").err
    assert "stopped at its cap" not in pidispatch("show", old).out
    assert pidispatch("grant", "no-such-run", "+1").code == 1


def test_after_a_week_the_session_is_deleted(pidispatch, database):
    old = a_stopped_run(database)
    with database.transaction() as connection:
        connection.execute(text("UPDATE run_sessions SET expires_at = now() - interval '1 second'"))

    assert "its session is not kept (deleted)" in pidispatch("show", old).out
