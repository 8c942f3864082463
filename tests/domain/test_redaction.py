"""A secret is masked in every form it is written in, and nothing else is touched."""

import base64
import hashlib
import json
import re
import time
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.redaction import LONGEST, MASK, MOST_TEXT, Redactor

KEY = "sk-ant-api03-Zx9_qWERTYuiop-1234567890asdfGHJKL"
HIDES = Redactor([KEY])


def percent(text):
    return "".join(f"%{byte:02X}" for byte in text.encode())


def json_escaped(text):
    return "".join(f"\\u{ord(character):04x}" for character in text)


FORMS = {
    "plain": KEY,
    "in capitals": KEY.upper(),
    "base64": base64.b64encode(KEY.encode()).decode(),
    "base64 without padding": base64.b64encode(KEY.encode()).decode().rstrip("="),
    "base64, second alignment": base64.b64encode(b"x" + KEY.encode() + b"yz").decode(),
    "base64, third alignment": base64.b64encode(b"xx" + KEY.encode() + b"y").decode(),
    "base64 for URLs": base64.urlsafe_b64encode(b"?" + KEY.encode()).decode(),
    "base64 in lines": base64.encodebytes(b"key: " + KEY.encode() * 3).decode(),
    "base64 in a URL": quote(base64.b64encode(KEY.encode()).decode(), safe=""),
    "hex": KEY.encode().hex(),
    "hex in capitals": KEY.encode().hex().upper(),
    "hex in pairs": KEY.encode().hex(" "),
    "percent": percent(KEY),
    "percent in small letters": percent(KEY).lower(),
    "percent twice": percent(KEY).replace("%", "%25"),
    "percent in part": KEY[:9] + percent(KEY[9:20]) + KEY[20:],
    "JSON": json_escaped(KEY),
    "JSON in part": KEY[:5] + json_escaped(KEY[5:25]) + KEY[25:],
    "JSON in JSON": json.dumps(json.dumps(json_escaped(KEY))),
    "percent in JSON": json_escaped(percent(KEY)),
    "spaced": " ".join(KEY),
    "in lines": "\r\n".join(KEY),
    "wide spaces": "\u2003\u00a0".join(KEY),
    "backslashes at line ends": "\\\n".join(re.findall(".{1,9}", KEY)),
    "line ends in JSON": json.dumps("\n".join(re.findall(".{1,9}", KEY))),
    "a part": KEY[8:30],
}
# Whoever writes these means to: no list of them would be whole.
UNKNOWN = {
    "backwards": KEY[::-1],
    "base64 of hex": base64.b64encode(KEY.encode().hex().encode()).decode(),
    "hex with colons": KEY.encode().hex(":"),
    "a sum of strings": "' + '".join(re.findall(".{1,7}", KEY)),
    "zero width": "\u200b".join(KEY),
    "HTML": "".join(f"&#x{ord(character):x};" for character in KEY),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_masked_in_each_form(form):
    masked = HIDES.text(f"before {FORMS[form]} after")

    assert masked.startswith("before ")
    assert masked.endswith(" after")
    left = re.sub(r"[\W_]+", "", masked.removeprefix("before ").removesuffix(" after").replace(MASK, ""))
    assert MASK in masked
    # At the ends of base64 stand characters that hold bits of the neighbours too, and the neighbours.
    assert len(left) <= 12, masked


@pytest.mark.parametrize("form", UNKNOWN)
def test_a_form_that_nobody_writes_by_chance_is_not_looked_for(form):
    assert HIDES.text(UNKNOWN[form]) == UNKNOWN[form]


@pytest.mark.parametrize("value", ["a/b+c=d\"e\\f'g~h.i", "C:\\new\\table\\rows", "pass word with 4 blanks"])
def test_what_stands_between_its_letters_is_a_part_of_a_secret(value):
    hides = Redactor([value])

    for text in (
        value,
        json.dumps(value),
        json.dumps(json.dumps(value)),
        quote(value, safe=""),
        " ".join(value),
    ):
        assert MASK in hides.text(text)


@pytest.mark.parametrize(
    "text",
    ["", "nothing", "sk-ant-api03-", "%", "%2", "\\", "\\u12", "&#;", "\x00\ud800", MASK, "s k - a n t", "ς" * 30],
)  # fmt: skip
def test_what_holds_no_secret_comes_back_as_it_was(text):
    assert HIDES.text(text) == text
    assert Redactor().text(text) == text


def test_what_is_too_short_to_be_a_secret_is_not_masked():
    assert Redactor(["short", "x" * (LONGEST + 1)]).text("short") == "short"


def test_a_secret_with_few_letters_is_known_by_all_of_itself():
    hides = Redactor(["!?/()&%$a"])

    assert hides.text("x !?/()&%$a y") == f"x {MASK} y"
    assert hides.text("x !?/()&%$b y") == "x !?/()&%$b y"
    assert MASK in hides.text(base64.b64encode(b"!?/()&%$a").decode())


def test_a_word_of_eight_letters_may_be_a_password():
    assert Redactor(["hunter2-"]).text("hunter2 is hunter2-") == f"{MASK} is {MASK}-"


def test_bytes_that_are_no_text_stay_as_they_are_around_a_secret():
    assert HIDES.data(b"\xff\x00" + KEY.encode() + b"\xfe") == b"\xff\x00" + MASK.encode() + b"\xfe"
    assert HIDES.data(b"\xff\x00\xfe") == b"\xff\x00\xfe"


def test_strings_and_names_inside_a_value_are_masked():
    value = {"message": f"it is {KEY}", KEY: [1, None, True, {"a": KEY}]}

    assert HIDES.json(value) == {"message": f"it is {MASK}", MASK: [1, None, True, {"a": MASK}]}


def test_what_is_nested_too_deep_is_masked_whole():
    value = []
    for _ in range(5000):
        value = [value]

    assert MASK in json.dumps(HIDES.json(value))


def test_what_is_too_long_to_be_looked_at_is_masked_whole():
    assert HIDES.text("a" * (MOST_TEXT + 1)) == MASK
    assert HIDES.data(b"a" * (MOST_TEXT + 1)) == MASK.encode()


@pytest.mark.parametrize("piece", ["\\", "%25", "%2", "&#0", "\\u{0", "0x", KEY, KEY[:6], "a ", " ", "0"])
def test_time_grows_no_faster_than_the_text(piece):
    def seconds(size):
        text = (piece * (size // len(piece) + 1))[:size]
        began = time.process_time()
        HIDES.text(text)
        return time.process_time() - began

    assert seconds(320_000) < 24 * max(seconds(40_000), 0.005)


# Secrets of high entropy, as keys are: what a text holds by chance is none.
SECRETS = st.binary(min_size=1, max_size=8).map(
    lambda seed: "sk-" + base64.urlsafe_b64encode(hashlib.sha256(seed).digest()).decode()[:40]
)
NOISE = st.text(max_size=30)
GAPS = st.sampled_from([" ", "\n", "\r\n", "\t", "\\\n", "\u2003"])
INNER = {
    "plain": lambda text, _: text,
    "base64": lambda text, pad: base64.b64encode(b"~" * pad + text.encode() + b"~" * (pad // 3)).decode(),
    "base64 for URLs": lambda text, pad: base64.urlsafe_b64encode(b"?" * pad + text.encode()).decode().rstrip("="),
    "hex": lambda text, pad: text.encode().hex() if pad % 2 else text.encode().hex().upper(),
}  # fmt: skip


@st.composite
def written(draw, secret):
    """The secret in one of its forms, perhaps escaped, perhaps split."""
    text = INNER[draw(st.sampled_from(sorted(INNER)))](secret, draw(st.integers(0, 5)))
    escape = draw(st.sampled_from([None, percent, json_escaped]))
    if escape is not None:
        every = draw(st.integers(1, 3))
        text = "".join(
            escape(character) if at % every == 0 else character for at, character in enumerate(text)
        )
    elif draw(st.booleans()):
        every, gap = draw(st.integers(1, 9)), draw(GAPS)
        text = gap.join(text[at : at + every] for at in range(0, len(text), every))
    return text


def readings(text):
    """The text, and what a reader could make of it."""
    plainer = re.sub(
        r"\\u([0-9a-fA-F]{4})", lambda match: chr(int(match[1], 16)), unquote(text, errors="replace")
    )
    for each in (text, plainer):
        yield each
        yield re.sub(r"[\s\\]", "", each)


def pieces_of(secret):
    at = [place for place, character in enumerate(secret) if character.isalnum()]
    yield from (secret[first : last + 1] for first, last in zip(at, at[11:], strict=False))
    data = secret.encode()
    for text in (data.hex(), data.hex().upper()):
        yield from (text[at : at + 24] for at in range(0, len(text) - 23, 2))
    for pad in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"~" * pad + data)[4:-4].decode()
            yield from (text[at : at + 16] for at in range(len(text) - 15))


@settings(deadline=None)
@given(st.data(), st.lists(SECRETS, min_size=1, max_size=3, unique=True))
def test_whatever_forms_are_put_into_a_text_nothing_of_the_secret_is_left(data, secrets):
    hides = Redactor(secrets)
    parts = [data.draw(NOISE)]
    for _ in range(data.draw(st.integers(1, 4))):
        parts += [data.draw(written(data.draw(st.sampled_from(secrets)))), data.draw(NOISE)]

    masked = hides.text("".join(parts))

    assert MASK in masked
    for reading in readings(masked):
        assert not [piece for secret in secrets for piece in pieces_of(secret) if piece in reading]


@settings(deadline=None)
@given(NOISE, NOISE, st.lists(SECRETS, max_size=3))
def test_a_text_without_secrets_is_unchanged_and_one_with_them_loses_nothing_else(before, after, secrets):
    hides = Redactor([*secrets, KEY])

    assert hides.text(before + after) == before + after
    assert hides.text(f"{before}<{KEY}>{after}") == f"{before}<{MASK}>{after}"


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_without_secrets_are_unchanged(data):
    assert HIDES.data(data) == data


@settings(deadline=None)
@given(st.text(max_size=80))
def test_masking_twice_is_masking_once(text):
    once = HIDES.text(text + KEY)

    assert HIDES.text(once) == once
