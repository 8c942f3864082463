"""Limits as an operator sets them, on a whole installation."""

import json

import pytest

from tests.e2e.installation import eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


def test_a_paused_queue_starts_nothing_and_goes_on_after_resume(installation):
    folder = installation.repository("paused-queue")
    installation.pidispatch("pause", "--reason", "a look")
    try:
        answer = installation.run(folder, wait=False)
        waiting = installation.one(
            "SELECT cause FROM why_waiting WHERE public_id = :id", id=answer["public_id"]
        )
        assert waiting["cause"] == "paused"
    finally:
        installation.pidispatch("resume")

    eventually(lambda: installation.state(answer["public_id"]) == "ended", "it ran after resume")
    assert installation.record(answer["public_id"])["outcome"] == "completed"


def test_a_setting_holds_from_the_next_start_and_explain_says_what_it_did(installation):
    used = installation.one(
        "SELECT coalesce(max(used), 0) AS used FROM spend_today"
        " WHERE (scope, unit, period) = ('*', 'runs', 'day')"
    )["used"]
    installation.pidispatch("set", "dailyCap", str(max(1, used)))
    try:
        if not used:
            installation.run(installation.repository("uses-the-only-place"))
        answer = installation.run(installation.repository("over-the-cap"))
    finally:
        installation.pidispatch("unset", "dailyCap")

    record = installation.record(answer["public_id"])
    assert (record["outcome"], record["reason"], record["why"]) == ("policy", "over-budget", "day-cap")
    told = installation.pidispatch("explain", answer["public_id"]).stdout
    assert "over-budget" in told
    assert installation.run(installation.repository("again-after-unset"))["outcome"] == "completed"


def test_under_a_cap_of_dollars_a_model_needs_a_price(installation):
    installation.pidispatch("set", "maxCostUsd", "1")
    try:
        refused = installation.run(installation.repository("no-price"))
        installation.prices(models={"scripted/happy": {"input": 3, "output": 15}})
        answer = installation.run(installation.repository("a-price"))
    finally:
        installation.pidispatch("unset", "maxCostUsd")
        installation.prices()

    record = installation.record(refused["public_id"])
    assert (record["outcome"], record["reason"], record["why"]) == (
        "policy",
        "cost-cap-unenforceable",
        "no-price",
    )
    assert installation.record(answer["public_id"])["outcome"] == "completed"


def test_a_second_run_in_one_folder_waits_and_starts_within_a_second_of_the_firsts_end(installation):
    folder = installation.repository("twice-in-line")
    first = installation.run(folder, "--task", "first", model="gated", wait=False)
    eventually((folder / "waiting").exists, "the first works", seconds=60)
    second = installation.run(folder, "--task", "second", "--force", wait=False)
    waiting = installation.one(
        "SELECT cause, blocked_by FROM why_waiting WHERE public_id = :id", id=second["public_id"]
    )
    assert waiting["cause"] in {"scope", "waiting-for-a-worker"}

    (folder / "release").touch()
    eventually(lambda: installation.state(second["public_id"]) == "ended", "the second ran", seconds=60)

    gap = installation.one(
        "SELECT extract(epoch FROM b.admitted_at - a.ended_at) AS seconds FROM runs a, runs b"
        " WHERE a.public_id = :first AND b.public_id = :second",
        first=first["public_id"],
        second=second["public_id"],
    )["seconds"]
    assert 0 <= gap < 1


def test_the_books_balance(installation):
    done = installation.pidispatch("doctor", "--json", check=False)
    lines = json.loads(done.stdout)

    assert "FAILED" not in json.dumps(lines), done.stdout
    budget = json.loads(installation.pidispatch("budget", "--json").stdout)
    assert budget
