"""Exit 0 alone is no work done: what called no model, changed nothing and said nothing has completed nothing."""

from dataclasses import replace

import pytest

from pidispatch.domain.box.facts import FolderState
from pidispatch.domain.runs.outbox import Letter
from pidispatch.errors import BoxFault, EngineUnavailable, FolderRefused
from tests.flows.test_limits import finish as finish_with_a_call
from tests.store.builders import a_run, row, value

HEAD = "a" * 40
SAME = FolderState(is_root=True, head=HEAD, dirty=False, problem=None)
HOW = "SELECT outcome, reason, result, remarks, chain_refused FROM runs WHERE id = :id"
REQUEST = Letter("1", b'{"flow": "tidy", "task": "more"}')
IDLE = {
    "outcome": "completed",
    "reason": "completed",
    "result": "no-op",
    "remarks": ["nothing-done"],
    "chain_refused": None,
}
DONE = IDLE | {"result": "done-unverified", "remarks": None, "chain_refused": 0}


@pytest.fixture
def site(site):
    site.gitbox.left = SAME
    site.head = HEAD
    return site


def idle(site, *, report=None, output=b""):
    """A run whose box says that all went well."""
    run_id = a_run(site.database, folder="/repos/x")
    claim, container = site.started()
    site.go(claim)
    if report is not None:
        site.tickets.keep_report(
            run_id, claim.attempt, {"v": 1, "attempt": 1, "code": 0, **report}, verified=True
        )
    site.letters[site.runs.facts(run_id).container_name] = ()
    site.boxes.finish(container, 0, output)
    site.finisher.finish(run_id)
    return run_id


def told(site, run_id):
    return row(site.database, HOW, id=run_id)


def test_what_did_nothing_is_a_no_op(site):
    assert told(site, idle(site)) == IDLE


@pytest.mark.parametrize(
    "left", [replace(SAME, dirty=True), replace(SAME, head="b" * 40)], ids=["files", "commit"]
)
def test_a_change_is_work(site, left):
    site.gitbox.left = left

    assert told(site, idle(site)) == DONE


def test_a_word_of_what_was_done_is_work(site):
    assert told(site, idle(site, report={"message": "there was nothing to mend"})) == DONE


def test_a_report_without_a_word_is_none(site):
    assert told(site, idle(site, report={"message": "", "turns": 0})) == IDLE


def test_a_model_call_is_work(site):
    a_run(site.database, folder="/repos/x")
    claim, _ = site.started()
    finish_with_a_call(site, claim, tokens=10)

    assert told(site, claim.run_id) == DONE


@pytest.mark.parametrize(
    "left",
    [replace(SAME, problem="git said nothing"), BoxFault("broken"), FolderRefused("folder-missing", "gone")],
    ids=["unreadable", "box", "folder"],
)
def test_a_folder_that_nobody_can_look_at_shows_no_work(site, left):
    if isinstance(left, Exception):
        site.gitbox.error = left
    else:
        site.gitbox.left = left

    assert told(site, idle(site)) == IDLE


def test_an_engine_that_is_away_is_waited_for(site):
    site.gitbox.error = EngineUnavailable("away")
    with pytest.raises(EngineUnavailable):
        idle(site)
    run_id = value(site.database, "SELECT max(id) FROM runs")
    site.gitbox.error, site.gitbox.left = None, replace(SAME, dirty=True)

    site.finisher.finish(run_id)

    assert told(site, run_id) == DONE


def test_a_no_op_asks_for_no_further_runs(site):
    a_run(site.database, folder="/repos/x", flow="tidy")
    claim, container = site.started()
    site.go(claim)
    site.letters[site.runs.facts(claim.run_id).container_name] = (REQUEST,)
    site.boxes.finish(container, 0)

    site.finisher.finish(claim.run_id)

    assert told(site, claim.run_id) == IDLE
    assert value(site.database, "SELECT count(*) FROM runs") == 1


def test_what_the_runner_noticed_is_a_remark(site):
    site.gitbox.left = replace(SAME, dirty=True)

    noticed = idle(site, report={"message": "done", "notes": ["skill-missing", "tools-failed"]})

    assert told(site, noticed)["remarks"] == ["tools-failed", "skill-missing"]
