"""Say how near a run is to its caps, and which cap it was that stopped it."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pidispatch.domain import words
from pidispatch.domain.run import Outcome

PERCENT = 80  # of a cap: from here on a run is told to come to an end


class Limit(StrEnum):
    """What is capped."""

    COST = "cost"
    TOKENS = "tokens"
    TURNS = "turns"


@dataclass(frozen=True, slots=True)
class Fill:
    """What was used of one cap, in its own unit; without a cap nothing can come near."""

    of: Limit
    used: int
    cap: int | None


@dataclass(frozen=True, slots=True)
class Landing:
    """The cap that is nearest, None without any; `share` is how much of it is used, 1 at the cap."""

    share: float
    of: Limit | None
    due: bool


def landing(fills: Iterable[Fill]) -> Landing:
    """The fullest of them decides; of two alike the first."""
    nearest = Landing(0.0, None, due=False)
    for fill in fills:
        if fill.cap is None:
            continue
        share = fill.used / fill.cap if fill.cap > 0 else 1.0
        if nearest.of is None or share > nearest.share:
            nearest = Landing(share, fill.of, due=fill.used * 100 >= fill.cap * PERCENT)
    return nearest


_REASONS: dict[str, Limit] = {
    words.COST_CAP: Limit.COST,
    words.TOKEN_CAP: Limit.TOKENS,
    words.TURN_CAP: Limit.TURNS,
}
_RUNNER_WORDS: dict[str, Limit] = {words.TOKEN_BUDGET: Limit.TOKENS, words.TURN_BUDGET: Limit.TURNS}


def stopped_at(outcome: str | None, reason: str | None, why: str | None) -> Limit | None:
    """The cap that ended a run; None for every other ending. By the gateway's word, or by the runner's signed one."""
    if outcome != Outcome.POLICY:
        return None
    if reason == words.RUNNER_POLICY:
        return _RUNNER_WORDS.get(why or "")
    return _REASONS.get(reason or "")
