"""What a box says of itself is kept for any image, shown beside what was measured, and decides nothing."""

import json

import pytest

from pidispatch.ports import CallEnd
from pidispatch.store.rundetail import run_detail
from tests.flows.site import KEY
from tests.store.builders import a_run, assert_ledger_is_exact, row, value
from tests.support.calls import opened

USAGE = {
    "v": 1,
    "models": [{"provider": "scripted", "model": "happy", "calls": 1, "total": 15}],
}
HONEST = {"turns": 1, "tokens": {"total": 15, "calls": 1}, "usage": USAGE, "message": "all done"}
LIES = {
    "code": 7,
    "turns": 99,
    "tokens": {"total": 1, "calls": 99, "cost": 1_000_000.0},
    "usage": {"v": 1, "models": [{"provider": "scripted", "model": "cheap", "total": 1}]},
    "session": {"resumed": True, "reason": "resumed"},
}
TELEMETRY = "SELECT telemetry FROM run_attempts WHERE run_id = :id AND attempt = 1"


def ended(site, said, *, verified=None, down=False, cap=None):
    """A run whose box made one call of 15 tokens, and then said this."""
    run_id = a_run(site.database, cost_cap_micros=cap)
    claim, container = site.started()
    site.go(claim)
    call = opened(site.ledger, run_id, 1, provider="scripted", model="happy", api="openai-completions")
    site.ledger.settle_call(call, CallEnd(200, "stop", tokens_in=10, tokens_out=5))
    if verified is not None:
        site.tickets.keep_report(run_id, 1, verified, verified=True)
    line = json.dumps({"event": "exit", "jobId": "x", "code": 0} | said)
    site.boxes.finish(container, 0, f"\n{line}\n".encode())
    site.doors.down = down
    site.finisher.finish(run_id)
    if down:
        site.offset = "61 seconds"
        site.finisher.finish(run_id)
    return run_id


def differing(site, run_id):
    (attempt,) = run_detail(site.database, run_id).attempts
    return [line.of for line in attempt.compared if line.differs]


def test_what_an_image_without_a_report_says_is_kept_and_agrees(site):
    run_id = ended(site, HONEST)

    kept = value(site.database, TELEMETRY, id=run_id)
    assert (kept["message"], kept["tokens"]) == ("all done", {"total": 15, "calls": 1})
    assert kept["usage"]["models"][0]["total"] == 15
    assert differing(site, run_id) == []


def test_a_box_that_lies_is_marked_and_changes_nothing(site):
    run_id = ended(site, LIES)

    assert differing(site, run_id) == [
        "code", "turns", "calls", "tokens", "resumed", "scripted/cheap", "scripted/happy",
    ]  # fmt: skip
    assert row(
        site.database,
        "SELECT outcome, turns, tokens_total, cost_micros, exit_code, session_resumed FROM runs WHERE id = :id",
        id=run_id,
    ) == {
        "outcome": "completed",
        "turns": 1,
        "tokens_total": 15,
        "cost_micros": None,
        "exit_code": 0,
        "session_resumed": False,
    }
    assert_ledger_is_exact(site.database)


def test_the_line_is_kept_beside_a_signed_report_and_does_not_replace_it(site):
    run_id = ended(site, HONEST, verified={"code": 0, "reason": "completed", "turns": 1})

    kept = row(
        site.database,
        "SELECT reported, report_verified, telemetry -> 'message' AS said FROM run_attempts WHERE run_id = :id",
        id=run_id,
    )
    assert kept == {
        "reported": {"code": 0, "reason": "completed", "turns": 1},
        "report_verified": True,
        "said": "all done",
    }


def test_without_the_gateway_no_text_of_the_box_is_kept(site):
    run_id = ended(site, HONEST | {"message": KEY}, down=True)

    kept = value(site.database, TELEMETRY, id=run_id)
    assert kept["tokens"] == {"total": 15, "calls": 1}
    assert KEY not in json.dumps(kept)
    assert "message" not in kept


@pytest.mark.parametrize(
    "said",
    [
        {"message": "\x00\x1b[2J\ud800" * 1000},
        {"message": "\U0001f4a5" * 5000, "usage": {"v": 1, "models": [USAGE["models"][0] | {"cost": 1e308}] * 8}},
        {"tokens": {"total": 2**53 - 1, "cost": 1e308}},
        {"tokens": 3, "usage": [], "context": "x", "session": {"resumed": 1}},
    ],
)  # fmt: skip
def test_no_line_keeps_a_run_from_its_end(site, said):
    run_id = ended(site, said)

    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "ended"
    assert value(site.database, TELEMETRY, id=run_id)["code"] == 0
    assert run_detail(site.database, run_id).attempts[0].telemetry is not None
