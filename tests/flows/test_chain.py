"""From a completed run's outbox to the runs it asked for, on a real Postgres."""

import json

import pytest
from sqlalchemy import text

from pidispatch.domain.runs.outbox import Letter
from pidispatch.errors import BoxFault, DatabaseUnavailable, EngineUnavailable
from pidispatch.flows.chain import ChainLimits
from tests.flows.site import Site
from tests.store.builders import a_run, row, value

BEFORE, AFTER = "a" * 40, "b" * 40
ALLOW, DENY = b"---\nai-trigger: allow\n---\n", b"---\nname: review\n---\n"


@pytest.fixture
def site(database):
    site = Site(database)
    site.gitbox.skills_at = {BEFORE: {"review": ALLOW, "deploy": DENY}, AFTER: {"deploy": ALLOW}}
    return site


def a_letter(number="1", **asked):
    return Letter(number, json.dumps({"flow": "review", "task": "look", **asked}).encode())


def worked(site, *letters, code=0, after=AFTER):
    """A run whose agent left these requests, and whose box has ended; not finished yet."""
    claim, container = site.started()
    site.go(claim)
    report = {"v": 1, "attempt": claim.attempt, "code": code, "message": "asked for more"}
    site.tickets.keep_report(claim.run_id, claim.attempt, report, verified=True)
    site.letters[site.runs.facts(claim.run_id).container_name] = letters
    site.head = after
    site.boxes.finish(container, code)
    return claim


def finished(site, *letters, **how):
    claim = worked(site, *letters, **how)
    site.finisher.finish(claim.run_id)
    return claim


def answers(site, claim):
    found = site.chains._chains.answers(claim.run_id)
    return [answer.run or " ".join(filter(None, (answer.refused, answer.why))) for answer in found]


def children(database):
    with database.transaction() as connection:
        return (
            connection.execute(text("SELECT public_id FROM runs WHERE trigger_type = 'chain' ORDER BY id"))
            .scalars()
            .all()
        )


def test_a_request_becomes_a_run_that_is_rung_for(site, database):
    a_run(database)
    before = site.bell.starts

    claim = finished(site, a_letter())

    (child,) = children(database)
    assert child.startswith("chain-")
    assert answers(site, claim) == [child]
    assert site.bell.starts - before == 2
    event = value(
        database,
        "SELECT event FROM run_payloads p JOIN runs r ON r.id = p.run_id WHERE r.public_id = :id",
        id=child,
    )
    folder = json.loads(event)["folder"]
    assert json.loads(event) == {"source": "chain", "folder": folder, "sha": AFTER}
    assert "/" not in folder


def test_the_child_runs_and_may_not_ask_deeper(site, database):
    a_run(database)
    finished(site, a_letter())
    site.head = BEFORE

    child = finished(site, a_letter())

    assert row(
        database, "SELECT outcome, chain_refused, chain_depth FROM runs WHERE id = :id", id=child.run_id
    ) == {"outcome": "completed", "chain_refused": 1, "chain_depth": 1}
    assert answers(site, child) == ["chain-depth-cap"]
    assert site.gate.admit() is None
    assert site.nothing_is_left()


def test_what_the_agent_committed_vouches_for_nothing(site, database):
    a_run(database)

    claim = finished(site, a_letter(flow="deploy"), a_letter("2", flow="new-one"))

    assert answers(site, claim) == ["chain-gate-deny not-allowed", "chain-gate-deny no-skill"]
    assert children(database) == []


def test_without_a_commit_before_nothing_may_be_asked_for(site, database):
    site.head = None
    a_run(database)

    claim = finished(site, a_letter())

    assert answers(site, claim) == ["chain-gate-deny no-commit"]
    assert site.gitbox.asked == 0


def test_each_request_is_answered_and_git_is_asked_once(site, database):
    a_run(database)
    letters = [
        a_letter("1"),
        a_letter("2", command="x"),
        a_letter("3", flow="deploy"),
        a_letter("4", task="b"),
    ]

    claim = finished(site, *letters, Letter("5", refused="chain-count-cap"))

    first, command, deploy, second, capped = answers(site, claim)
    assert [first, second] == children(database)
    assert (command, deploy, capped) == (
        "chain-command-refused",
        "chain-gate-deny not-allowed",
        "chain-count-cap",
    )
    assert site.gitbox.asked == 1
    refused = value(database, "SELECT chain_refused FROM runs WHERE id = :id", id=claim.run_id)
    assert refused == 3


def test_no_box_is_made_for_requests_that_are_refused_anyway(site, database):
    a_run(database)
    site.chains._limits = ChainLimits(depth=0)

    claim = finished(site, a_letter(), Letter("2", b"{"))

    assert answers(site, claim) == ["chain-depth-cap", "chain-parse-error"]
    assert site.gitbox.asked == 0


@pytest.mark.parametrize("code", [1, 2, 137])
def test_only_a_completed_run_may_ask(site, database, code):
    a_run(database)

    claim = finished(site, a_letter(), code=code)

    assert value(database, "SELECT state FROM runs WHERE id = :id", id=claim.run_id) == "ended"
    assert children(database) == []
    assert value(database, "SELECT chain_refused IS NULL FROM runs WHERE id = :id", id=claim.run_id)


@pytest.mark.parametrize(
    "error", [BoxFault("git did not answer"), ValueError("a fault of ours"), OSError(5, "io")]
)
def test_a_fault_of_the_collection_refuses_the_requests_and_the_run_ends(site, database, error):
    a_run(database)
    site.gitbox.error = error

    claim = finished(site, a_letter())

    assert value(database, "SELECT outcome FROM runs WHERE id = :id", id=claim.run_id) == "completed"
    assert answers(site, claim) == ["chain-collect-error"]


def test_an_engine_that_is_away_is_waited_for_a_minute(site, database):
    a_run(database)
    claim = worked(site, a_letter())
    site.gitbox.error = EngineUnavailable("away")

    for _ in range(2):
        with pytest.raises(EngineUnavailable):
            site.finisher.finish(claim.run_id)
    assert value(database, "SELECT state FROM runs WHERE id = :id", id=claim.run_id) == "finishing"

    site.gitbox.error = None
    site.finisher.finish(claim.run_id)
    assert answers(site, claim) == children(database)


def test_an_engine_that_stays_away_does_not_keep_the_run_from_ending(site, database):
    a_run(database)
    claim = worked(site, a_letter())
    site.gitbox.error = EngineUnavailable("away")
    with pytest.raises(EngineUnavailable):
        site.finisher.finish(claim.run_id)

    site.offset = "61 seconds"
    site.finisher.finish(claim.run_id)

    assert answers(site, claim) == ["chain-collect-error"]


def test_a_database_that_is_away_is_waited_for(site, database, monkeypatch):
    a_run(database)
    claim = worked(site, a_letter())

    def away(run_id):
        raise DatabaseUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setattr(site.chains._chains, "parent", away)
        with pytest.raises(DatabaseUnavailable):
            site.finisher.finish(claim.run_id)

    site.finisher.finish(claim.run_id)
    assert len(children(database)) == 1


def test_a_folder_that_is_gone_refuses_the_requests(site, database):
    a_run(database, folder="/repos/gone")
    claim = worked(site, a_letter())
    site.refused_folders[b"/repos/gone"] = "local-folder-missing"

    site.finisher.finish(claim.run_id)

    assert answers(site, claim) == ["chain-collect-error"]


def test_a_cap_of_dollars_without_a_cap_of_the_run_lets_nothing_pass(site, database):
    a_run(database)
    site.chains._limits = ChainLimits(depth=1, tree_micros=10**6)

    claim = finished(site, a_letter())

    assert answers(site, claim) == ["chain-spend-cap no-run-cap"]


def test_a_cap_that_the_parent_was_asked_to_keep_counts_for_its_children(site, database):
    a_run(database, cost_cap_micros=600_000)
    site.chains._limits = ChainLimits(depth=1, tree_micros=1_100_000)

    claim = finished(site, a_letter(), a_letter("2", task="another"))

    first, second = answers(site, claim)
    assert [first] == children(database)
    assert second == "chain-spend-cap"
    assert value(database, "SELECT cost_cap_asked FROM runs WHERE public_id = :id", id=first) == 600_000
