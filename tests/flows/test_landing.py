"""From a run that stopped at a cap to the run that goes on from there, on a real Postgres."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from pidispatch.domain.box.facts import ImageFacts
from pidispatch.domain.runs.session import PI_VERSION_LABEL, NotKept
from pidispatch.errors import GatewayUnavailable
from pidispatch.store.runs import cancelling, granting, requeueing
from pidispatch.store.runs.granting import CannotGrant
from tests.store.builders import a_run, assert_ledger_is_exact, row, value
from tests.support.image import IMAGE

SESSION = b'{"type":"session","version":3,"cwd":"/workspace"}\n{"type":"message","text":"caf\xc3\xa9"}\n'
CAPS = "SELECT max_turns, max_tokens, cost_cap_micros FROM runs WHERE id = :id"
HOW = "SELECT session_resumed, session_reason, session_bytes FROM runs WHERE id = :id"


def an_image(version="1.6.0"):
    labels = {} if version is None else {PI_VERSION_LABEL: version}
    return {IMAGE: ImageFacts("sha256:1", labels, "amd64", runs_here=True)}


@pytest.fixture
def site(site):
    site.images.facts_by_tag = an_image()
    return site


def worked(site, *, code, left=SESSION, word="turn_budget", version="1.6.0"):
    """The next run gets its go, leaves a session, and its box ends so."""
    claim, container = site.started()
    site.go(claim)
    report = {"v": 1, "attempt": 1, "code": code, "reason": word}
    site.tickets.keep_report(claim.run_id, claim.attempt, report, verified=True)
    site.left[site.runs.facts(claim.run_id).container_name] = left
    box = site.boxes._boxes[container]
    box.state = replace(box.state, labels={**box.state.labels, PI_VERSION_LABEL: version} if version else {})
    site.boxes.finish(container, code)
    site.finisher.finish(claim.run_id)
    return claim


def a_stopped_run(site, **how):
    """It ended at its cap of turns."""
    run_id = a_run(site.database, folder="/repos/x", task=b"paint it")
    worked(site, code=2, **how)
    return run_id


def grant(site, run_id, micros=2_000_000):
    return granting.grant(site.database, run_id, micros=micros, actor="ada@h1")


def prompt(site, claim):
    return site.files.kept[site.runs.facts(claim.run_id).container_name]["prompt.md"].decode()


def session_given(site, claim):
    return site.files.sessions[site.runs.facts(claim.run_id).container_name]


def kept(site):
    return value(site.database, "SELECT count(*) FROM run_sessions")


def test_a_run_that_stopped_at_a_cap_keeps_its_session_for_a_week(site):
    run_id = a_stopped_run(site)

    found = row(
        site.database,
        "SELECT session, pi_version, expires_at - kept_at BETWEEN interval '6 days 23:59' AND interval '7 days 1 minute'"
        " AS week FROM run_sessions WHERE run_id = :id",
        id=run_id,
    )
    assert found == {"session": SESSION, "pi_version": "1.6.0", "week": True}
    assert row(site.database, HOW, id=run_id) == {
        "session_resumed": False, "session_reason": None, "session_bytes": len(SESSION),
    }  # fmt: skip
    assert site.nothing_is_left()


@pytest.mark.parametrize(
    ("code", "word"), [(0, "completed"), (1, "infra"), (2, "aborted"), (2, "config"), (137, "terminated")]
)
def test_no_other_ending_keeps_one(site, code, word):
    run_id = a_run(site.database, folder="/repos/x")
    worked(site, code=code, word=word)

    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "ended"
    assert kept(site) == 0


def test_a_cap_that_an_unsigned_report_names_keeps_none(site):
    a_run(site.database, folder="/repos/x")
    claim, container = site.started()
    site.go(claim)
    site.left[site.runs.facts(claim.run_id).container_name] = SESSION
    site.boxes.finish(container, 2, b'\n{"event":"exit","jobId":"x","code":2,"reason":"turn_budget"}\n')
    site.finisher.finish(claim.run_id)

    assert kept(site) == 0


def test_a_session_of_no_use_is_told_in_the_record(site):
    run_id = a_stopped_run(site, left=NotKept("too-large"))

    assert kept(site) == 0
    assert row(site.database, HOW, id=run_id)["session_reason"] == "too-large"
    name = value(site.database, "SELECT public_id FROM runs WHERE id = :id", id=run_id)
    with pytest.raises(
        CannotGrant, match=rf"not kept \(too-large\); `pidispatch requeue {name}` starts it anew"
    ):
        grant(site, run_id)


def test_what_nobody_could_hide_the_secrets_in_is_not_kept(site):
    def unanswered(_box):
        raise GatewayUnavailable("down")

    site.finisher._sessions._read_session = unanswered
    run_id = a_stopped_run(site)

    assert kept(site) == 0
    found = row(site.database, "SELECT state, session_reason FROM runs WHERE id = :id", id=run_id)
    assert found == {"state": "ended", "session_reason": "gateway-unreachable"}


def test_a_granted_run_goes_on_with_the_session_the_task_and_the_caps(site):
    old = a_stopped_run(site)
    with site.database.transaction() as connection:
        connection.execute(text("UPDATE runs SET max_tokens = 5000, flow = 'paint'"))

    made = grant(site, old)
    claim, _ = site.started()

    assert claim.public_id == made.public_id
    assert session_given(site, claim) == SESSION
    assert prompt(site, claim).startswith("You were stopped at a limit while you worked on the task below;")
    assert prompt(site, claim).endswith("paint it")
    assert row(site.database, CAPS, id=made.run_id) == {
        "max_turns": 30, "max_tokens": 5000, "cost_cap_micros": 2_000_000,
    }  # fmt: skip
    assert row(site.database, HOW, id=made.run_id) == {
        "session_resumed": True, "session_reason": "resumed", "session_bytes": None,
    }  # fmt: skip
    assert row(site.database, "SELECT continues, mutex IS NOT NULL AS locked FROM runs WHERE id = :id", id=made.run_id) == {
        "continues": old, "locked": True,
    }  # fmt: skip
    told = row(site.database, "SELECT actor, subject, detail FROM audit_log WHERE action = 'grant'")
    assert (told["actor"], told["detail"]) == ("ada@h1", {"run": made.public_id, "dollars": "2"})


def test_what_was_granted_is_what_the_windows_reserve(site):
    site.policy = replace(site.policy, max_cost_micros=500_000, daily_micros=3_000_000)
    old = a_stopped_run(site)

    grant(site, old, 2_400_000)
    claim, _ = site.started()

    held = "SELECT held FROM reservations v JOIN spend_windows w ON w.id = v.window_id WHERE w.unit = 'micros' AND v.run_id = :id"
    assert value(site.database, held, id=claim.run_id) == 2_400_000
    assert row(site.database, CAPS, id=claim.run_id)["cost_cap_micros"] == 2_400_000
    assert_ledger_is_exact(site.database)


def test_more_than_the_windows_have_room_for_is_refused_as_for_any_run(site):
    site.policy = replace(site.policy, max_cost_micros=500_000, daily_micros=2_000_000)
    old = a_stopped_run(site)

    made = grant(site, old, 2_400_000)

    assert site.gate.admit() is None
    end = row(site.database, "SELECT outcome, reason FROM runs WHERE id = :id", id=made.run_id)
    assert end == {"outcome": "policy", "reason": "dollar-cap"}
    assert grant(site, old, 400_000).public_id != made.public_id


def test_a_grant_is_a_cap_even_where_runs_have_none(site):
    old = a_stopped_run(site)
    assert site.policy.max_cost_micros is None

    made = grant(site, old)
    site.started()

    assert row(site.database, CAPS, id=made.run_id)["cost_cap_micros"] == 2_000_000


@pytest.mark.parametrize(("version", "reason"), [("1.7.0", "pi-version-changed"), (None, "no-pi-version")])
def test_another_pi_begins_afresh_with_the_task_and_the_record_says_so(site, version, reason):
    old = a_stopped_run(site)
    site.images.facts_by_tag = an_image(version)

    grant(site, old)
    claim, _ = site.started()

    assert session_given(site, claim) == b""
    assert prompt(site, claim).startswith("An earlier run worked on the task below")
    found = row(site.database, HOW, id=claim.run_id)
    assert (found["session_resumed"], found["session_reason"]) == (False, reason)


def test_one_run_goes_on_at_a_time_and_the_refusal_names_it(site):
    old = a_stopped_run(site)
    first = grant(site, old)

    with pytest.raises(CannotGrant, match=f"goes on already, as {first.public_id}"):
        grant(site, old)

    cancelling.cancel(site.database, first.run_id, actor="ada@h1")
    assert grant(site, old).public_id != first.public_id


def test_what_went_on_and_stopped_again_goes_on_from_there(site):
    old = a_stopped_run(site)
    second = grant(site, old)
    worked(site, code=2, left=SESSION + b"more\n")

    with pytest.raises(CannotGrant, match=f"went on as {second.public_id}, which stopped at a cap too"):
        grant(site, old)
    grant(site, second.run_id)
    claim, _ = site.started()

    assert session_given(site, claim) == SESSION + b"more\n"


def test_a_further_attempt_goes_on_too(site):
    old = a_stopped_run(site)
    grant(site, old)
    claim, container = site.started()
    site.boxes.finish(container, 97)
    site.finisher.finish(claim.run_id)
    with site.database.transaction() as connection:
        connection.execute(
            text("UPDATE runs SET not_before = NULL, looked_at = NULL WHERE state = 'deferred'")
        )

    again, _ = site.started()

    assert (again.run_id, again.attempt) == (claim.run_id, 2)
    assert session_given(site, again) == SESSION


def test_a_requeue_repeats_the_task_and_resumes_nothing(site):
    old = a_stopped_run(site)
    going_on = grant(site, old)
    cancelling.cancel(site.database, going_on.run_id, actor="ada@h1")

    for run_id, cap in ((old, None), (going_on.run_id, 2_000_000)):
        requeueing.requeue(site.database, run_id, actor="ada@h1")
        claim, container = site.started()
        assert session_given(site, claim) == b""
        assert prompt(site, claim) == "paint it"
        assert row(site.database, CAPS, id=claim.run_id)["cost_cap_micros"] == cap
        site.boxes.finish(container, 0)
        site.go(claim)
        site.finisher.finish(claim.run_id)


@pytest.mark.parametrize("ending", [0, 1])
def test_what_did_not_stop_at_a_cap_is_requeued_instead(site, ending):
    run_id = a_run(site.database, folder="/repos/x")
    worked(site, code=ending, word="x")

    with pytest.raises(
        CannotGrant, match=r"did not stop at a cap of its own, it ended .*; `pidispatch requeue"
    ):
        grant(site, run_id)


def test_what_has_not_ended_is_not_granted_more(site):
    waiting = a_run(site.database)

    with pytest.raises(CannotGrant, match="has not ended: it is queued"):
        grant(site, waiting)


def test_after_a_week_nothing_is_left_but_what_a_run_waits_to_go_on_with(site):
    old = a_stopped_run(site)
    week = text("UPDATE run_sessions SET expires_at = clock_timestamp() - interval '1 second'")
    grant(site, old)
    with site.database.transaction() as connection:
        connection.execute(week)
    site.hosts.tidy()
    assert kept(site) == 1

    claim, container = site.started()
    assert session_given(site, claim) == SESSION
    site.boxes.finish(container, 0)
    site.go(claim)
    site.finisher.finish(claim.run_id)
    site.hosts.tidy()

    assert kept(site) == 0
    with pytest.raises(CannotGrant, match=r"its session is not kept \(deleted\)"):
        grant(site, old)


def test_where_the_task_is_deleted_it_is_asked_for_anew(site):
    old = a_stopped_run(site)
    with site.database.transaction() as connection:
        connection.execute(
            text("UPDATE run_payloads SET expires_at = clock_timestamp() - interval '1 second'")
        )

    with pytest.raises(CannotGrant, match="ask anew with `pidispatch run`"):
        grant(site, old)


def test_an_ending_that_another_wrote_keeps_nothing_twice(site):
    run_id = a_stopped_run(site)

    site.finisher.finish(run_id)

    assert kept(site) == 1
