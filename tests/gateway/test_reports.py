"""Reports are rebuilt from known fields, whatever the box sent."""

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.gateway.door.reports import read_report


@given(st.binary())
def test_no_bytes_make_it_raise(body):
    assert read_report(body) is None


FIELDS = (
    "code",
    "reason",
    "turns",
    "truncated",
    "message",
    "tokens",
    "context",
    "session",
    "pi",
    "notes",
    "else",
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.sampled_from(["total", "window"]), inner),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_whatever_the_fields_hold_the_report_is_plain_json_for_any_database(fields):
    report = read_report(json.dumps({**fields, "v": 1, "attempt": 1}).encode())

    assert report is not None
    assert set(report) == {"v", "attempt", *FIELDS} - {"else"}
    text = json.dumps(report, ensure_ascii=False, allow_nan=False)
    assert "\\u0000" not in text
    assert text.encode()


def test_a_long_message_is_cut_and_its_unstorable_characters_are_replaced():
    report = read_report(json.dumps({"v": 1, "attempt": 1, "message": "\x00\ud800" + "x" * 5000}).encode())

    assert report["message"] == "\ufffd\ufffd" + "x" * 1998


def test_numbers_and_flags_of_tokens_are_kept_and_nothing_else():
    tokens = {"total": 5, "cost": 0.25, "metered": True, "bad": -1, "worse": "x", "a b": 1}

    report = read_report(json.dumps({"v": 1, "attempt": 1, "tokens": tokens}).encode())

    assert report["tokens"] == {"total": 5, "cost": 0.25, "metered": True}


def test_notes_are_words_of_ours_alone():
    notes = [{}, "tools-failed", "key sk-123", "nothing-done", 7]
    report = read_report(json.dumps({"v": 1, "attempt": 1, "notes": notes}).encode())

    assert report["notes"] == ["nothing-done", "tools-failed"]
