"""What one entry of `triggers.json`, or all of them, answer to an event."""

from dataclasses import dataclass
from enum import IntEnum

from pidispatch.domain.forges.table import FORGES
from pidispatch.domain.triggers.event import Item
from pidispatch.domain.triggers.subject import RunSubject, forge_subject
from pidispatch.domain.triggers.trigger import IssueEvent, PullRequestEvent, Trigger


class MatchGate(IntEnum):
    """The gates in their order. One that asks people's rights comes last: it costs a call to the forge."""

    FORGE = 0
    ARMED = 1
    EVENT = 2
    REPOSITORY = 3
    ACTION = 4
    NUMBER = 5
    CONTENT = 6
    AUTHORITY = 7


@dataclass(frozen=True, slots=True)
class Stopped:
    """An entry that does not match: the gate that stopped it, and why as a word of the drop reasons."""

    trigger: Trigger
    gate: MatchGate
    reason: str


@dataclass(frozen=True, slots=True)
class Match:
    """An entry that matches. `by` is the label, phrase or action that did; one of `flow` and `command` is set."""

    trigger: Trigger
    repo: str
    number: int
    item: Item
    type: str
    by: str | None
    flow: str | None
    command: str | None
    closed: bool = False

    @property
    def lane(self) -> str:
        return f"cmd:{self.command}" if self.command is not None else self.flow or ""

    @property
    def one_shot(self) -> str | None:
        """The key that this run spends, when its entry may fire once."""
        on = self.trigger.on
        once = isinstance(on, IssueEvent | PullRequestEvent) and on.once
        return self.trigger.identity if once else None

    def subject(self) -> RunSubject:
        forge = FORGES[self.trigger.work.kind]
        return forge_subject(forge, self.repo, self.number, self.item, self.lane, closed=self.closed)


Verdict = Match | Stopped


@dataclass(frozen=True, slots=True)
class Dropped:
    """Nothing starts. `nearest` is the entry that got farthest, None when the event itself is at fault."""

    reason: str
    nearest: Stopped | None = None
