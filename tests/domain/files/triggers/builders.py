"""Entries of `triggers.json` that are accepted, to be changed by one key."""

import json

import pytest

from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.errors import ConfigurationRefused

FILE = "triggers.json"
ABSENT = object()

CRON = {
    "on": {"type": "cron", "id": "nightly", "pattern": "0 3 * * *"},
    "run": {"kind": "local", "folder": "/srv/site", "flow": "tidy", "task": "Tidy up"},
}
LABEL = {"on": {"type": "label", "any": ["pi"]}, "run": {"kind": "github", "flow": "fix"}}
COMMENT = {"on": {"type": "comment", "phrase": "@pi"}, "run": {"kind": "github", "flow": "fix"}}
PULL = {"on": {"type": "pull_request", "action": ["opened"]}, "run": {"kind": "github", "flow": "review"}}
CLOSE = {
    "on": {"type": "pull_request", "action": ["closed"], "number": 40, "once": True},
    "run": {"kind": "github", "flow": "deploy"},
}
ISSUE = {
    "on": {"type": "issue", "action": ["closed"], "number": 40, "once": True},
    "run": {"kind": "github", "flow": "deploy"},
}
AZURE = {
    "on": {"type": "label", "any": ["pi"]},
    "run": {"kind": "azure", "flow": "fix", "repository": "web"},
}
BY_NAME = {
    "cron": CRON, "label": LABEL, "comment": COMMENT, "pull": PULL, "close": CLOSE, "issue": ISSUE, "azure": AZURE,
}  # fmt: skip


def changed(entry, on=None, run=None, **fields):
    """A copy of the entry with some keys set, or taken away by ABSENT."""
    whole = {**entry, "on": {**entry["on"], **(on or {})}, "run": {**entry["run"], **(run or {})}, **fields}
    return {
        name: {k: v for k, v in part.items() if v is not ABSENT} if isinstance(part, dict) else part
        for name, part in whole.items()
    }


def text(*entries, **more):
    return json.dumps({"triggers": list(entries), **more}).encode()


def parse(*entries, **more):
    return parse_triggers(text(*entries, **more), FILE)


def one(entry):
    return parse(entry).entries[0]


def problems(*entries, **more):
    with pytest.raises(ConfigurationRefused) as error:
        parse(*entries, **more)
    return error.value.problems


def refused(entry):
    """The one problem of an entry that stands alone in its file."""
    (problem,) = problems(entry)
    assert problem.startswith(f"{FILE}:1: triggers[0]"), problem
    return problem
