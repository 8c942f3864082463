"""Keep a tree of runs, from the first run to its last descendant, within what it may use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pidispatch.domain import words
from pidispatch.domain.runs.outbox import Child, RequestRefusal


@dataclass(frozen=True, slots=True)
class TreeCaps:
    """What a tree may use; None is no bound. `each` is what one more run may spend. Money is micro-dollars."""

    runs: int | None = None
    micros: int | None = None
    each: int | None = None

    @property
    def bind(self) -> bool:
        return self.runs is not None or self.micros is not None


@dataclass(frozen=True, slots=True)
class TreeUse:
    """What the runs of a tree hold or have used: a run that has not ended counts with all it may spend."""

    runs: int
    micros: int


@dataclass(frozen=True, slots=True)
class Harvest:
    """What became of each request of a run that completed, and the bounds of its tree."""

    answers: tuple[Child | RequestRefusal, ...] = ()
    caps: TreeCaps = TreeCaps()

    @property
    def children(self) -> tuple[Child, ...]:
        return tuple(answer for answer in self.answers if isinstance(answer, Child))


def within_tree(
    answers: Sequence[Child | RequestRefusal], used: TreeUse, caps: TreeCaps
) -> tuple[Child | RequestRefusal, ...]:
    """The answers, with a refusal in place of each child that has no room. The same request twice is one run."""
    runs, micros, known = used.runs, used.micros, set[str]()
    settled: list[Child | RequestRefusal] = []
    for answer in answers:
        if isinstance(answer, RequestRefusal) or answer.public_id in known:
            settled.append(answer)
            continue
        refusal = _no_room(answer, TreeUse(runs, micros), caps)
        if refusal is None:
            known.add(answer.public_id)
            runs += 1
            micros += caps.each or 0
        settled.append(refusal or answer)
    return tuple(settled)


def _no_room(child: Child, used: TreeUse, caps: TreeCaps) -> RequestRefusal | None:
    if caps.runs is not None and used.runs + 1 > caps.runs:
        return RequestRefusal(child.number, words.CHAIN_TREE_CAP)
    if caps.micros is None:
        return None
    if caps.each is None:  # a run without a cap of its own may spend anything
        return RequestRefusal(child.number, words.CHAIN_SPEND_CAP, words.NO_RUN_CAP)
    return (
        RequestRefusal(child.number, words.CHAIN_SPEND_CAP) if used.micros + caps.each > caps.micros else None
    )


@dataclass(frozen=True, slots=True)
class ChainParent:
    """What a run hands down: `commit` is what its folder's HEAD named before its agent started.

    `cost_cap_micros` is what it was asked to spend at most, None for as configured.
    """

    kind: str
    public_id: str
    depth: int
    folder: bytes | None
    image: str | None
    cost_cap_micros: int | None
    commit: str | None


@dataclass(frozen=True, slots=True)
class ChainAnswer:
    """What became of one request: the public id of its run, or the word it was refused with, and a second word."""

    request: str
    run: str | None
    refused: str | None
    why: str | None


def answers_in(kept: Any) -> tuple[ChainAnswer, ...]:
    """The answers as `plant` kept them."""
    return tuple(
        ChainAnswer(each["request"], each.get("run"), each.get("refused"), each.get("why"))
        for each in kept or ()
    )
