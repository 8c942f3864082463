"""Judge what a run left in its outbox: which files are requests, and which of them may become runs."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from pidispatch.domain import words

REQUEST_BYTES = 4096
WHOLE_OUTBOX = "*"  # stands for a number where no single request can be named

_NAME = re.compile(r"request-([0-9]+)\.json")
_FLOW = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ALLOW = re.compile(r'ai-trigger:[ \t]*(allow|"allow")[ \t]*')
_ANSWERED = re.compile(r"ai-trigger[ \t]*:")


@dataclass(frozen=True, slots=True)
class Letter:
    """One request file as it was found: the digits of its number, and its bytes or the word for why there are none."""

    number: str
    content: bytes = b""
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that becomes nothing; `why` is a second word."""

    number: str
    word: str
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """A request whose own words are in order; whether its skill may be asked for is not known yet."""

    number: str
    flow: str
    task: bytes


@dataclass(frozen=True, slots=True)
class Child:
    """A request that becomes a run, unless its tree has no room."""

    number: str
    public_id: str
    flow: str
    task: bytes
    event: bytes


def request_names(names: Iterable[str]) -> list[tuple[str, str]]:
    """The (number, name) of each request, by number; every other name is nobody's business."""
    found = [(matched[1], name) for name in names if (matched := _NAME.fullmatch(name))]
    return sorted(found, key=lambda each: (int(each[0]), each[1]))


def read_request(letter: Letter, *, depth: int, depth_max: int) -> Wish | Refusal:
    """Check one request in the fixed order. `depth` is the one its run would have; the request has no say in it."""
    if letter.refused is not None:
        return Refusal(letter.number, letter.refused)
    if len(letter.content) > REQUEST_BYTES:
        return Refusal(letter.number, words.CHAIN_OVERSIZE)
    asked = _json_object(letter.content)
    if asked is None:
        return Refusal(letter.number, words.CHAIN_PARSE_ERROR)
    if "command" in asked:
        return Refusal(letter.number, words.CHAIN_COMMAND_REFUSED)
    flow, task = asked.get("flow"), asked.get("task")
    if not isinstance(flow, str) or not _FLOW.fullmatch(flow):
        return Refusal(letter.number, words.CHAIN_BAD_FLOW_NAME)
    if not isinstance(task, str):
        return Refusal(letter.number, words.CHAIN_BAD_TASK)
    if depth > depth_max:
        return Refusal(letter.number, words.CHAIN_DEPTH_CAP)
    return Wish(letter.number, flow, _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", task).encode())


def may_be_asked_for(skill: bytes) -> bool:
    """Whether the front matter of this SKILL.md says `ai-trigger: allow`, and nothing else on the matter."""
    text = skill.decode(errors="replace").removeprefix("\ufeff")
    first, *rest = [line.removesuffix("\r") for line in text.split("\n")]
    if first.rstrip(" \t") != "---":
        return False
    head = []
    for line in rest:
        if line.rstrip(" \t") == "---":
            break
        head.append(line)
    else:
        return False
    said = [line for line in head if _ANSWERED.match(line)]
    return bool(said) and all(_ALLOW.fullmatch(line) for line in said)


def _json_object(content: bytes) -> dict[str, object] | None:
    try:
        value = json.loads(content.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError):  # ValueError is that of bad UTF-8 and of bad JSON as well
        return None
    return value if isinstance(value, dict) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
