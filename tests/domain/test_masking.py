"""An answer passes with its keys masked, its length kept, and nothing held back that a reader could use."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.text.masking import MOST_LINE, Keys, Mask, is_key
from tests.domain.test_redaction import FORMS, KEY

KEYS = Keys([KEY, "ollama", "lm-studio", "sk-no-key-required"])
OVER_LINES = {"in lines", "base64 in lines", "backslashes at line ends"}  # what no single line has
WHOLE = [name for name in FORMS if name != "a part"]


def passed(data: bytes, sizes, *, lines: bool) -> list[bytes]:
    mask, at, out = Mask(KEYS, lines=lines), 0, []
    for size in sizes:
        out.append(mask.feed(data[at : at + size]))
        at += size
    return [*out, mask.feed(data[at:]), mask.end()]


@pytest.mark.parametrize("lines", [True, False])
@pytest.mark.parametrize("step", [1, 5, 64, 100_000])
@pytest.mark.parametrize("form", WHOLE)
def test_a_key_is_masked_in_each_form_however_it_is_cut(form, step, lines):
    if lines and form in OVER_LINES:
        pytest.skip("a line passes as soon as it is whole")
    data = f'data: {{"error":"no such key {FORMS[form]} here"}}\n\ndata: [DONE]\n\n'.encode()

    out = b"".join(passed(data, [step] * (len(data) // step), lines=lines))

    assert len(out) == len(data)
    assert b"[redacted]" in out
    assert out.startswith(b'data: {"error":"no such key ')
    assert out.endswith(b"\ndata: [DONE]\n\n")
    assert KEYS.masked(out) == out


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 40), max_size=60), st.booleans(), st.integers(0, 3000))
def test_no_cut_lets_a_key_through(sizes, lines, before):
    data = b"x " * before + KEY.encode() + b" y" * 700

    out = b"".join(passed(data, [before * 2, *sizes], lines=lines))

    assert len(out) == len(data)
    assert KEY[:12].encode() not in out
    assert KEY[-12:].encode() not in out


def test_a_stream_is_not_delayed_behind_the_end_of_a_line():
    mask = Mask(KEYS, lines=True)

    assert mask.feed(b'data: {"a":1}\n') == b'data: {"a":1}\n'
    assert mask.feed(b"\n") == b"\n"
    assert mask.feed(b": ping\r\n\r\ndata: {") == b": ping\r\n\r\n"
    assert mask.feed(b"}\n\n") == b"data: {}\n\n"
    assert mask.end() == b""


@pytest.mark.parametrize("lines", [True, False])
def test_what_is_held_back_is_bounded(lines):
    mask, fed, out = Mask(KEYS, lines=lines), 0, 0
    for _ in range(500):
        fed += 1000
        out += len(mask.feed(b"z" * 1000))
        assert fed - out <= MOST_LINE
    assert len(mask.end()) == fed - out


def test_a_chain_of_keys_longer_than_all_bounds_passes_masked():
    data = (KEY.encode() + b".") * 4000

    out = b"".join(passed(data, [4096] * 40, lines=True))

    assert len(out) == len(data)
    assert KEY[:12].encode() not in out


@pytest.mark.parametrize(
    "text",
    [
        "lm-studio needs not-needed",
        "sk-no-key-required",
        KEY[:12],
        KEY[-12:],
        "sk-ant-api03-…",
        json.dumps("ä" * 99),
    ],
)
def test_what_a_model_may_write_itself_passes(text):
    assert KEYS.masked(text.encode()) == text.encode()


@pytest.mark.parametrize(
    ("value", "known"),
    [(KEY, True), ("lm-studio", False), ("sk-1234", False), ("0123456789ab", True), ("sk-no-key-required", False), ("correct-horse-battery-staple", True)],
)  # fmt: skip
def test_a_word_is_no_key(value, known):
    assert is_key(value) is known


def test_fields_are_masked_and_one_with_a_key_in_its_name_is_left_out():
    fields = (("x-echo", f"Bearer {KEY}"), (f"x-{KEY.lower().replace('_', '-')}", "1"), ("server", "x\xe9"))

    masked = KEYS.fields(fields)

    assert [name for name, _ in masked] == ["x-echo", "server"]
    assert KEY not in masked[0][1]
    assert masked[1] == fields[2]


def test_without_keys_nothing_is_held_or_changed():
    mask = Mask(Keys(), lines=False)

    assert mask.feed(b"half a ") == b"half a "
    assert mask.end() == b""
