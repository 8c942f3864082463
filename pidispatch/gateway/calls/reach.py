"""Judge whether a run may make a call: its caps say so of the costs, and `Reach` of where the request leads.

What leads out of the box is judged whatever the caps are. pi ends on a 402 and shows its message. It asks again where a
message has words such as "timeout", "terminated" or a number such as 500 in it (its own list), so that these texts have
neither.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pidispatch.domain import words
from pidispatch.domain.egress.allowlist import Allowlist, Reason, read_entries
from pidispatch.domain.egress.hostname import Target, read_target
from pidispatch.domain.providers.calls import Ticket
from pidispatch.domain.words import Use, meaning
from pidispatch.gateway.egress.dial import in_words
from pidispatch.gateway.egress.log import EgressLog
from pidispatch.gateway.wire.api import ErrorText
from pidispatch.gateway.wire.apis import BY_NAME
from pidispatch.gateway.wire.references import MOST_SHOWN, References

SETTING = "PIDISPATCH_PROVIDER_TOOLS"
# Strict on purpose: what one reader takes for the host, another may not (a backslash, a user's name, a line break).
_ADDRESS = re.compile(
    r"(?P<scheme>[Hh][Tt][Tt][Pp][Ss]?)://(?P<host>[0-9A-Za-z._:\[\]-]{1,300})(?:[/?#][!-\[\]-~]*)?"
)
_PORTS = {"http": 80, "https": 443}
_KINDS = (
    r"(?:_preview)?(?:_call|_call_output|_tool_use|_tool_result|_toolset)?(?:_[0-9]{4}_?[0-9]{2}_?[0-9]{2})?"
)


def denial(api: str, reason: str, problem: str | None) -> dict[str, Any]:
    """An error body in the shape of this API. `problem` names what in the request is not bounded, if anything."""
    said = meaning(reason, Use.CALL) or "it may not make it"
    if problem is not None and reason == words.MODEL_POLICY_UNENFORCEABLE:
        said = f"{said}: {problem}. Ask without it"
    elif problem is not None and reason in {words.TOKEN_CAP, words.COST_CAP_UNENFORCEABLE}:
        said = f"the run has a cap, and what this asks for has no bound: {problem}. Ask without it"
    message = f"pidispatch: this run may not make this call ({reason}): {said}"
    return BY_NAME[api].error(ErrorText("budget_exceeded", message, reason))


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

    def body(self, api: str) -> dict[str, Any]:
        """An error in the shape of this API."""
        return BY_NAME[api].error(ErrorText(self.kind, f"pidispatch: {self.problem}"))


class Reach:
    """What requests may lead to: hosts of the egress list, and what the operator names in `tools`.

    With egress off too only listed hosts count: who fetches is the provider, on whose network any other name may lead
    anywhere.
    """

    def __init__(
        self,
        allowed: Callable[[], Allowlist] = Allowlist,
        *,
        evidence: EgressLog | None = None,
        tools: Iterable[str] = (),
    ) -> None:
        self._allowed, self._evidence = allowed, evidence or EgressLog(None)
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
