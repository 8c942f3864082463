"""Soft landing: the runner hears that a cap is near, and says so to pi, once and only while pi works."""

import json

import pytest
from runner.landing import Near, read, words

from tests.runner.support import Box
from tests.support.patience import until

NEAR = {
    "v": 1, "share": 0.83, "of": "cost", "landing": True, "micros": 1_660_000, "cap_micros": 2_000_000,
    "tokens": 10, "cap_tokens": None, "turns": 1, "cap_turns": 30,
}  # fmt: skip
FAR = {**NEAR, "share": 0.1, "landing": False}


def steer_of(box):
    return json.loads(box.record_path.with_name("record.json.steer").read_text())


def test_pi_is_told_once_what_is_left_and_the_log_says_so(tmp_path, gateway):
    gateway.budget = [(200, FAR), (200, NEAR)]
    box = Box(tmp_path, gateway, mode="steered")

    code, _ = box.end()

    command = steer_of(box)
    assert (code, command["type"]) == (0, "steer")
    assert "$1.66 of $2.00" in command["message"]
    assert "$0.34 are left" in command["message"]
    told = [json.loads(line) for line in box.output.split(b"\n") if b"budget_landing" in line]
    assert told == [
        {
            "event": "budget_landing", "jobId": "pi-job-0123abcd-7-1", "of": "cost", "share": 0.83,
            "used": 1_660_000, "cap": 2_000_000,
        }
    ]  # fmt: skip
    assert gateway.budget_asked == 2


@pytest.mark.parametrize(
    "answers",
    [
        [(404, None)],
        [None],
        [(503, {"error": 1})],
        [(200, b"\xff" * 100)],
        [(200, b"[" * 50_000)],
        [(200, {"landing": True})],
        [(200, b"")],
    ],
)
def test_a_gateway_that_cannot_say_harms_no_run(tmp_path, gateway, answers):
    gateway.budget = answers
    box = Box(tmp_path, gateway)

    code, line = box.end()

    assert (code, line["reason"]) == (0, "completed")
    assert b"budget_landing" not in box.output


def test_who_has_ended_is_not_steered(tmp_path, gateway):
    """The answer comes while pi is only asked for its numbers."""
    gateway.budget = [(503, None), (200, NEAR)]
    box = Box(tmp_path, gateway)

    code, _ = box.end()

    assert code == 0
    assert b"budget_landing" not in box.output


def test_sigterm_does_not_wait_for_the_one_who_waits(tmp_path, gateway):
    gateway.budget = [(503, None)]
    box = Box(tmp_path, gateway, mode="hang")
    until(lambda: box.pi_was_started and gateway.budget_asked)

    box.terminate()

    assert box.end(seconds=8)[0] == 143


def test_turns_and_tokens_are_counts():
    assert "24 of 30, the turns that this run may use, are used; 6 are left" in words(
        Near("turns", 0.8, 24, 30)
    )
    assert "9,500 of 10,000" in words(Near("tokens", 0.95, 9_500, 10_000))


@pytest.mark.parametrize(
    "said",
    [
        {**NEAR, "of": None},
        {**NEAR, "of": ["cost"]},
        {**NEAR, "micros": "1"},
        {**NEAR, "cap_micros": None},
        {**NEAR, "share": None},
        {**NEAR, "landing": 1},
        [],
        7,
    ],
)
def test_an_answer_of_another_shape_says_nothing(said):
    assert read(json.dumps(said).encode()) is None
