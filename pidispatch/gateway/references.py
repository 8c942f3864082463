"""Collect what a model request leads to beyond its own bytes, and judge whether this run may have it.

A provider can be sent to an address, to a tool of its own, or to a file that it keeps: each is a way out of the box
that no proxy sees. So it is judged whatever the caps are, and a request with any of it says nothing of another one.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pidispatch.domain.egress import Allowlist, Reason, read_entries
from pidispatch.domain.hostname import Target, read_target
from pidispatch.gateway.egresswords import in_words
from pidispatch.gateway.evidence import Evidence
from pidispatch.gateway.loose import as_dict
from pidispatch.ports import Ticket

MOST_ADDRESSES = 1_000
MOST_SHOWN = 64
SETTING = "PIDISPATCH_PROVIDER_TOOLS"
# Strict on purpose: what one reader takes for the host, another may not (a backslash, a user's name, a line break).
_ADDRESS = re.compile(
    r"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://(?P<host>[0-9A-Za-z._:\[\]-]{1,300})(?:[/?#][!-\[\]-~]*)?"
)
_PORTS = {"http": 80, "https": 443}
_LOOKS_LIKE_ONE = re.compile(r"\s*(?:(?:[a-z][a-z0-9+.-]*:)?[/\\]{2}|https?:)", re.IGNORECASE)
_KINDS = (
    r"(?:_preview)?(?:_call|_call_output|_tool_use|_tool_result|_toolset)?(?:_[0-9]{4}_?[0-9]{2}_?[0-9]{2})?"
)


@dataclass(slots=True)
class References:
    """What stands in one request.

    `addresses`: what a provider would fetch, as it is written. `words`: what is no plain part of the API, by the word
    that an operator can list, with how it is said. `unreadable`: a part that can be read in no way or in two, or that
    stands for something kept elsewhere: nothing lets it through. `unbounded`: what in it has no bound, if anything.
    """

    addresses: set[str] = field(default_factory=set)
    words: dict[str, str] = field(default_factory=dict)
    unreadable: str | None = None
    unbounded: str | None = None

    def address(self, text: str) -> None:
        self.unbound("content by its address, whose size is not known")
        if len(self.addresses) < MOST_ADDRESSES:
            self.addresses.add(text)
        else:
            self.refuse("the request has too many addresses")

    def word(self, word: str, said: str) -> None:
        """Something that is not known to stay inside the request: a tool, a kind of content, a member."""
        self.unbound(said)
        if len(self.words) < MOST_ADDRESSES:
            self.words.setdefault(word, said)
        else:
            self.refuse("the request has too many parts that are not known here")

    def refuse(self, problem: str) -> None:
        self.unbound(problem)
        self.unreadable = self.unreadable or problem

    def unbound(self, problem: str) -> None:
        self.unbounded = self.unbounded or problem

    def addresses_in(self, value: Any) -> None:
        """Take every text of a built value that looks like an address: of what is not known, any could be fetched."""
        pending = [value]
        while pending:
            each = pending.pop()
            if isinstance(each, str) and _LOOKS_LIKE_ONE.match(each):
                self.address(each)
            elif isinstance(each, list):
                pending += each
            else:
                pending += as_dict(each).values()


def looks_like_address(text: str) -> bool:
    return _LOOKS_LIKE_ONE.match(text) is not None


def read_address(text: str) -> Target | None:
    """The host and port of an http or https address; None for anything else."""
    found = _ADDRESS.fullmatch(text)
    return None if found is None else read_target(found["host"], _PORTS[found["scheme"].lower()])


def is_listed(word: str, listed: Iterable[str]) -> bool:
    """Whether an operator's word means this tool, kind or member; its date and `_preview` may be left out."""
    return any(re.fullmatch(re.escape(each) + _KINDS, word) for each in listed)


@dataclass(frozen=True, slots=True)
class Barred:
    """Why a request goes nowhere."""

    status: int
    kind: str
    problem: str


class Reach:
    """What requests may lead to: hosts of the egress list, and what the operator names in `tools`.

    With egress off too only listed hosts count: who fetches is the provider, on whose network any other name may lead
    anywhere.
    """

    def __init__(
        self,
        allowed: Callable[[], Allowlist] = Allowlist,
        *,
        evidence: Evidence | None = None,
        tools: Iterable[str] = (),
    ) -> None:
        self._allowed, self._evidence = allowed, evidence or Evidence(None)
        self.tools = frozenset(tools)

    def judge(self, ticket: Ticket, found: References) -> Barred | None:
        """None: it may be sent, as far as it leads anywhere."""
        if found.unreadable is not None:
            return Barred(400, "invalid_request_error", found.unreadable)
        for word, said in found.words.items():
            if not is_listed(word, self.tools):
                return Barred(403, "permission_error", _not_listed(word, said))
        refused = [self._refusal(ticket, address) for address in sorted(found.addresses)]
        return next((each for each in refused if each is not None), None)

    def _refusal(self, ticket: Ticket, address: str) -> Barred | None:
        target = read_address(address)
        if target is None:
            problem = "an address in the request is no plain http:// or https:// one"
            return Barred(403, "permission_error", problem)
        listed = Allowlist(self._allowed().entries)
        ruling = listed.judge(target, read_entries(ticket.egress))
        self._note(ticket, target, ruling.reason, allowed=ruling.allowed)
        if ruling.allowed:
            return None
        words = in_words(target, ruling.reason, ruling.entry)
        return Barred(403, "permission_error", f"an address in the request: {words}")

    def _note(self, ticket: Ticket, target: Target, reason: Reason, *, allowed: bool) -> None:
        self._evidence.note(ticket.run_id, target, reason, allowed=allowed, connections=1)


def _not_listed(word: str, said: str) -> str:
    return (
        f"{said} may lead out of the request, to something that the provider runs, keeps or fetches. Ask without it; "
        f"an operator lets it through with {word[:MOST_SHOWN]} in {SETTING}"
    )
