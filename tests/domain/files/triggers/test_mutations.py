"""A thousand damaged files: each is refused in words, or means what it says."""

import copy
import json
import random

import pytest

from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.grammar.marking import with_disarmed, without_disarmed
from pidispatch.domain.triggers.grammar.nearmiss import BACKEND, MODELS, TOOLS, WAIT
from pidispatch.domain.triggers.trigger import Disarmed
from pidispatch.errors import ConfigurationRefused
from tests.domain.files.triggers.builders import (
    AZURE,
    CLOSE,
    COMMENT,
    CRON,
    ISSUE,
    LABEL,
    PULL,
    changed,
    text,
)

RICH = {
    "provider": "anthropic", "model": "sonnet", "maxTurns": 9, "models": ["anthropic/sonnet"], "maxCostUsd": "2.50", "backend": "local",
    "excludeTools": ["bash"], "secrets": {"TOKEN": "op://a/b"}, "secretsProfile": "prod", "image": "img", "packages": False, "priority": 2,
}  # fmt: skip
WAITS = {"waitFor": [{"after": "2026-09-01T09:00:00Z"}, {"profile": "jira"}], "instructions": "Be brief"}
ENTRIES = [
    changed(CRON, on={"tz": "UTC", "missed": "skip"}, run={**RICH, "github": True}),
    changed(LABEL, on={"none": ["no"], "repo": "a/b"}, run={**RICH, **WAITS}, id="one"),
    changed(COMMENT, run={**RICH, **WAITS}),
    changed(
        PULL, on={"action": ["review_submitted"], "reviewState": ["approved"]}, run={**RICH, "replicas": 2}
    ),
    changed(CLOSE, on={"disarmed": {"at": "x"}, "while_running": "skip"}, run=RICH),
    changed(ISSUE, run=RICH),
    changed(AZURE, run={**RICH, **WAITS}),
]
GUARDED = ("waitFor", "backend", "excludeTools", "provider", "model", "models", "maxTurns", "maxCostUsd")
LOOKS_LIKE = dict(zip("aceopsxyi", "\u0430\u0441\u0435\u043e\u0440\u0455\u0445\u0443\u0456", strict=True))
VALUES = [None, True, 0, -1, 1.5, 10**400, 2**53, "", " ", "x", "\u0000", [], [None], {}, {"a": 1}, [[[]]]]


def _spot(chance, entry):
    """An object of the entry and one of its keys."""
    part = chance.choice(
        [entry, entry["on"], entry["run"], *[v for v in entry["run"].values() if isinstance(v, dict)]]
    )
    return part, chance.choice(list(part))


def delete(chance, entries):
    part, key = _spot(chance, chance.choice(entries))
    del part[key]


def retype(chance, entries):
    part, key = _spot(chance, chance.choice(entries))
    part[key] = chance.choice(VALUES)


def nest(chance, entries):
    part, key = _spot(chance, chance.choice(entries))
    for _ in range(chance.choice([1, 5, 40])):
        part[key] = [part[key]]


def move(chance, entries):
    entry = chance.choice(entries)
    key = chance.choice(list(entry["run"]))
    entry["on"][key] = entry["run"].pop(key)


def _rename(chance, entries, spelling):
    """Rename a key whose absence would cost, which must then be refused."""
    entry = chance.choice(entries)
    key = chance.choice([name for name in GUARDED if name in entry["run"]])
    new = spelling(chance, key)
    if new not in entry["run"]:
        entry["run"][new] = entry["run"].pop(key)
    return new


def misspell(chance, entries):
    def spelling(chance, key):
        if len(key) < 6:  # a short word's slips are words of their own
            return chance.choice(
                [key.upper(), key.capitalize(), f"{key}_", f" {key}", f"{key}Id", "-".join(key)]
            )
        at = chance.randrange(len(key) - 1)
        slips = [key[:at] + key[at + 1 :], key[:at] + key[at] + key[at:], key[:at] + key[at + 1] + key[at] + key[at + 2 :],
                 key.upper(), "_".join(key), key[:at] + "q" + key[at + 1 :]]  # fmt: skip
        return chance.choice(slips)

    return _rename(chance, entries, spelling)


def disguise(chance, entries):
    def spelling(chance, key):
        at = chance.choice([n for n, letter in enumerate(key) if letter in LOOKS_LIKE])
        return key[:at] + LOOKS_LIKE[key[at]] + key[at + 1 :]

    return _rename(chance, entries, spelling)


def _twice(chance, content):
    begin = chance.choice([n for n in range(len(content)) if content[n : n + 2] == b'{"'])
    return content[: begin + 1] + b'"type": 1, "type": 2, ' + content[begin + 1 :]


def _cut(chance, content):
    return content[: chance.randrange(len(content))]


def _flip(chance, content):
    at = chance.randrange(len(content))
    return content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]


def _not_a_number(chance, content):
    return content.replace(
        b"9", chance.choice([b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5000, b"0x9", b"09"]), 1
    )


OF_ENTRIES = [delete, retype, nest, move]
OF_KEYS = [misspell, disguise]
OF_BYTES = [_twice, _cut, _flip, _not_a_number]


def _told(content):
    """The problems of the content; none when it is accepted. Anything else that is raised fails the test."""
    try:
        found = parse_triggers(content, "t.json")
    except ConfigurationRefused as error:
        told = error.problems
    else:
        for trigger in found.entries:
            _mark(content, trigger)
        return ()
    assert told
    assert all(problem.startswith("t.json") and "\n" not in problem for problem in told)
    return told


def _mark(content, trigger):
    if not getattr(trigger.on, "once", False):
        with pytest.raises(ConfigurationRefused, match="no one-shot"):
            with_disarmed(content, "t.json", trigger.index, Disarmed("now"))
        return
    armed = without_disarmed(content, "t.json", trigger.index)
    marked = with_disarmed(armed, "t.json", trigger.index, Disarmed("now"))
    assert parse_triggers(marked, "t.json").entries[trigger.index].disarmed == Disarmed("now")


@pytest.mark.parametrize("seed", range(10))
def test_a_damaged_file_is_refused_in_words(seed):
    chance = random.Random(seed)
    for _ in range(100):
        entries = copy.deepcopy(ENTRIES)
        kind = chance.choice([*OF_ENTRIES, *OF_KEYS, *OF_BYTES])
        if kind in OF_BYTES:
            told = _told(kind(chance, text(*entries)))
            assert told or kind in {_flip, _cut}
            continue
        guarded = kind(chance, entries)
        told = _told(text(*entries))
        if kind in OF_KEYS:
            assert any("is not a field" in problem for problem in told), guarded


def test_no_single_slip_in_a_guarded_key_is_taken_silently():
    letters = "abcdefghijklmnopqrstuvwxyzABC019_- "
    for family in (WAIT, BACKEND, TOOLS, MODELS):
        for key in {*family.meant.values()} - {"model", "models"}:
            slips = {key[:n] + key[n + 1 :] for n in range(len(key))}
            slips |= {key[:n] + letter + key[n:] for n in range(len(key) + 1) for letter in letters}
            slips |= {key[:n] + letter + key[n + 1 :] for n in range(len(key)) for letter in letters}
            assert [slip for slip in slips - {key} if family.meant_by(slip) is None] == []


def test_every_key_that_is_swapped_for_any_value_is_refused_or_read():
    for entry in ENTRIES:
        for part in ("on", "run"):
            for key in entry[part]:
                for value in VALUES:
                    _told(text(changed(entry, **{part: {key: value}})))


def test_depth_and_size_are_bounded():
    assert "nested deeper" in _told(b'{"triggers": ' + b"[" * 100_000)[0]
    assert "larger than" in _told(b'{"triggers": [' + b" " * 1_100_000 + b"]}")[0]


def test_a_large_file_is_read_whole():
    many = [changed(LABEL, id=f"e{n}") for n in range(5000)]

    assert len(parse_triggers(json.dumps({"triggers": many}).encode(), "t").entries) == 5000
