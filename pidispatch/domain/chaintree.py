"""Keep a tree of runs, from the first run to its last descendant, within what it may use."""

from collections.abc import Sequence
from dataclasses import dataclass

from pidispatch.domain import words
from pidispatch.domain.outbox import Child, Refusal


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

    answers: tuple[Child | Refusal, ...] = ()
    caps: TreeCaps = TreeCaps()

    @property
    def children(self) -> tuple[Child, ...]:
        return tuple(answer for answer in self.answers if isinstance(answer, Child))


def within_tree(
    answers: Sequence[Child | Refusal], used: TreeUse, caps: TreeCaps
) -> tuple[Child | Refusal, ...]:
    """The answers, with a refusal in place of each child that has no room. The same request twice is one run."""
    runs, micros, known = used.runs, used.micros, set[str]()
    settled: list[Child | Refusal] = []
    for answer in answers:
        if isinstance(answer, Refusal) or answer.public_id in known:
            settled.append(answer)
            continue
        refusal = _no_room(answer, TreeUse(runs, micros), caps)
        if refusal is None:
            known.add(answer.public_id)
            runs += 1
            micros += caps.each or 0
        settled.append(refusal or answer)
    return tuple(settled)


def _no_room(child: Child, used: TreeUse, caps: TreeCaps) -> Refusal | None:
    if caps.runs is not None and used.runs + 1 > caps.runs:
        return Refusal(child.number, words.CHAIN_TREE_CAP)
    if caps.micros is None:
        return None
    if caps.each is None:  # a run without a cap of its own may spend anything
        return Refusal(child.number, words.CHAIN_SPEND_CAP, words.NO_RUN_CAP)
    return Refusal(child.number, words.CHAIN_SPEND_CAP) if used.micros + caps.each > caps.micros else None


@dataclass(frozen=True, slots=True)
class ChainAnswer:
    """What became of one request: the public id of its run, or the word it was refused with, and a second word."""

    request: str
    run: str | None
    refused: str | None
    why: str | None
