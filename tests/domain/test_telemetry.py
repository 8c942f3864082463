"""What a box says of itself is kept within bounds and without secrets, and is told apart from what was measured."""

import json

import pytest

from pidispatch.domain.exitline import MESSAGE_LIMIT, parse_exit
from pidispatch.domain.redaction import MASK, Redactor
from pidispatch.domain.telemetry import MOST_BYTES, Compared, Measured, Observed, compare, telemetry

KEY = "sk-ant-api03-Zx9_qWERTYuiop-1234567890asdfGHJKL"
ROW = {
    "provider": "anthropic",
    "model": "claude",
    "calls": 2,
    "input": 30,
    "output": 10,
    "total": 40,
    "cost": 0.25,
}


def a_line(**fields):
    event = {"event": "exit", "jobId": "local-1", "code": 0} | fields
    return parse_exit(b"\n" + json.dumps(event).encode() + b"\n")


HIDES = Redactor([KEY]).text


def kept(mask=HIDES, **fields):
    return telemetry(a_line(**fields), mask)


def test_everything_that_the_line_says_is_kept_and_nothing_that_it_does_not():
    said = kept(
        reason="completed",
        turns=3,
        message="done",
        tokens={"total": 40, "cost": 0.25},
        usage={"v": 1, "piAi": "0.80.1", "truncated": 0, "models": [ROW]},
        context={"tokens": 10, "window": 200},
        session={"resumed": False, "reason": "absent"},
        resources={"memPeak": 5},
        signal="SIGTERM",
        surprise={"deep": [1]},
    )

    assert said["usage"]["models"][0]["model"] == "claude"
    assert said == {
        "code": 0,
        "reason": "completed",
        "turns": 3,
        "message": "done",
        "signal": "SIGTERM",
        "tokens": {"total": 40, "cost": 0.25},
        "usage": said["usage"],
        "context": {"tokens": 10, "window": 200},
        "session": {"resumed": False, "reason": "absent"},
        "resources": {"mem_peak": 5},
    }


@pytest.mark.parametrize(
    "fields",
    [
        {"message": f"the key is {KEY}"},
        {"message": " ".join(KEY)},
        {"reason": KEY},
        {"usage": {"v": 1, "models": [ROW | {"model": KEY}]}},
        {"usage": {"v": 1, "models": [ROW | {"model": KEY.encode().hex()}]}},
    ],
)
def test_a_secret_is_masked_in_every_text(fields):
    said = json.dumps(kept(turns=3, **fields))

    assert MASK in said
    assert Redactor([KEY]).text(said) == said


def test_a_secret_that_is_spread_over_two_texts_is_kept_in_neither():
    said = kept(usage={"v": 1, "models": [ROW | {"provider": KEY[:10], "model": KEY[10:20]}]}, message="done")

    assert not any(part.lower() in json.dumps(said) for part in (KEY[:10], KEY[10:20]))
    assert said["usage"]["models"][0]["total"] == 40


def test_without_anybody_who_knows_the_secrets_only_numbers_and_words_of_ours_are_kept():
    said = kept(
        None,
        reason="made-up",
        turns=3,
        message="done",
        usage={"v": 1, "models": [ROW]},
        session={"resumed": True, "reason": "resumed"},
    )

    assert said["session"] == {"resumed": True, "reason": "resumed"}
    assert said["turns"] == 3
    assert said["usage"]["models"][0]["total"] == 40
    assert not {"reason", "message"} & set(said)
    assert not {"provider", "model"} & set(said["usage"]["models"][0])


def test_control_characters_are_no_part_of_what_is_kept():
    assert kept(message="a\x1b[2Jb\x00\x9b\nc")["message"] == "a\ufffd[2Jb\ufffd\ufffd\nc"


def test_the_largest_line_is_kept_within_bounds():
    rows = [ROW | {"provider": "p" * 128, "model": f"{n}" + "m" * 127, "cost": 1.7e308} for n in range(8)]
    said = kept(message="\U0001f4a5" * (MESSAGE_LIMIT * 2), usage={"v": 1, "models": rows})

    assert len(json.dumps(said)) <= MOST_BYTES


CLAUDE = Measured("Anthropic", "Claude", 2, 40, 250_000)
SAID = {
    "code": 0,
    "turns": 2,
    "tokens": {"total": 40, "calls": 2, "cost": 0.25},
    "usage": {"models": [{"provider": "anthropic", "model": "claude", "total": 40}]},
    "session": {"resumed": False},
}
OBSERVED = Observed(0, [CLAUDE], resumed=False)


def test_a_box_that_says_what_was_measured_differs_nowhere():
    found = compare(SAID, OBSERVED)

    assert [line.of for line in found] == [
        "code",
        "turns",
        "calls",
        "tokens",
        "micros",
        "resumed",
        "anthropic/claude",
    ]
    assert not any(line.differs for line in found)


@pytest.mark.parametrize(
    ("said", "differs"),
    [
        ({"code": 2}, ["code"]),
        ({"turns": 1}, ["turns"]),
        ({"tokens": {"total": 0}}, ["tokens"]),
        ({"tokens": {"total": 40, "calls": 0, "cost": 0.0}}, ["calls", "micros"]),
        ({"session": {"resumed": True}}, ["resumed"]),
        ({"usage": {"models": [{"provider": "anthropic", "model": "other", "total": 40}]}},
         ["anthropic/other", "anthropic/claude"]),
    ],
)  # fmt: skip
def test_what_differs_is_marked(said, differs):
    assert [line.of for line in compare(SAID | said, OBSERVED) if line.differs] == differs


def test_rounding_is_no_difference():
    said = SAID | {"tokens": {"total": 40, "cost": 0.250002}}

    assert not any(line.differs for line in compare(said, OBSERVED))


def test_dollars_that_a_box_says_it_did_not_meter_are_not_marked():
    said = SAID | {"tokens": {"total": 40, "cost": 0.0, "metered": False}}

    assert Compared("micros", 0, 250_000, differs=False) in compare(said, OBSERVED)


def test_a_box_that_folded_its_rows_is_not_held_to_those_that_it_does_not_name():
    said = SAID | {"usage": {"models": [{"provider": "other", "model": "other", "total": 40}]}}

    assert not any("/" in line.of for line in compare(said, OBSERVED))

    invented = SAID | {
        "usage": {"models": [*said["usage"]["models"], {"provider": "a", "model": "b", "total": 1}]}
    }
    assert [line.of for line in compare(invented, OBSERVED) if line.differs] == ["a/b"]


def test_a_model_that_is_named_twice_counts_twice():
    rows = [{"provider": "anthropic", "model": "claude", "total": total} for total in (15, 25)]

    assert not any(line.differs for line in compare(SAID | {"usage": {"models": rows}}, OBSERVED))


def test_models_whose_names_could_not_be_kept_are_not_compared():
    said = telemetry(a_line(usage={"v": 1, "models": [ROW]}), None)

    assert [line.of for line in compare(said, OBSERVED)] == ["code"]


def test_what_was_not_measured_is_told_and_not_marked():
    unpriced = Observed(None, [Measured("anthropic", "claude", 2, 40, None)])

    assert Compared("micros", 250_000, None, differs=False) in compare(SAID, unpriced)
    assert Compared("code", 0, None, differs=False) in compare(SAID, unpriced)


def test_a_box_that_said_nothing_is_compared_with_nothing():
    assert compare({}, OBSERVED) == []
