"""Decide the exit code and its reason from what pi's events added up to."""

from __future__ import annotations

import re
from typing import NamedTuple

from .fold import Folded

DONE, INFRA, POLICY, NO_GO, TERMINATED = 0, 1, 2, 97, 143


class Verdict(NamedTuple):
    code: int
    reason: str
    message: str | None = None
    truncated: bool = False


_REFUSED = re.compile(r"(401|403)\b")
_GATEWAY = re.compile(r"402\b.*pidispatch: ", re.DOTALL)
_CONFIG = re.compile(
    r"no api key|no models? available|(model|provider)\b.{0,200}\bnot found|unknown (model|provider)|authenticat",
    re.IGNORECASE,
)


def decide(folded: Folded, how: str, stderr: str = "") -> Verdict:
    """The first that fits wins. pi's own exit code says nothing: it is 0 even when the provider failed.

    `how` is settled, handled, ended (pi's output ended by itself), unguarded, deadline or terminated; `stderr` is
    what pi said last.
    """
    if how == "terminated":
        return Verdict(TERMINATED, "terminated")
    if folded.limit is not None:
        return Verdict(POLICY, "turn_budget" if folded.limit == "max_turns" else "token_budget")
    if how in ("deadline", "unguarded"):
        return Verdict(INFRA, "deadline" if how == "deadline" else "guard-failed")
    if folded.prompt_error is not None:
        return _refused_start(folded.prompt_error)
    return _gone(folded, stderr) if how == "ended" else _settled(folded)


def _settled(folded: Folded) -> Verdict:
    stop = folded.last_stop
    if stop is None:
        return Verdict(INFRA, "no-terminal-message")
    if folded.aborted or stop == "aborted":
        return Verdict(POLICY, "aborted", folded.last_error)
    if stop == "error":
        return _provider_error(folded)
    if stop in ("stop", "length"):
        return Verdict(DONE, "completed", None, stop == "length")
    return Verdict(INFRA, f"unknown-stop-reason:{stop[:40]}")


def _gone(folded: Folded, stderr: str) -> Verdict:
    if folded.last_stop is None and _CONFIG.search(stderr):
        return _refused_start(stderr)
    return Verdict(INFRA, "pi-exited", stderr or None)


def _refused_start(problem: str) -> Verdict:
    if _CONFIG.search(problem):
        return Verdict(POLICY, "config", problem)
    return Verdict(INFRA, "infra", problem)


def _provider_error(folded: Folded) -> Verdict:
    error = folded.last_error or ""
    if _GATEWAY.match(error):
        return Verdict(POLICY, "gateway-refused", error)
    # pi retries what its own rule calls retryable; an attempt that was retried is not a refused key.
    if _REFUSED.match(error) and folded.retries == 0:
        return Verdict(POLICY, "provider-auth-refused", error)
    return Verdict(INFRA, "error", error or None)
