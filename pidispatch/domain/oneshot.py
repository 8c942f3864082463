"""A one-shot trigger that was spent, and what its entry in `triggers.json` says of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from pidispatch.domain.triggers import Disarmed, IssueEvent, PullRequestEvent, Trigger, Triggers


@dataclass(frozen=True, slots=True)
class Spent:
    """The one-shot `key`, and the run that spent it. Times are aware UTC."""

    key: str
    spent_at: datetime
    run: str
    ended_at: datetime | None


def is_once(trigger: Trigger) -> bool:
    return isinstance(trigger.on, IssueEvent | PullRequestEvent) and trigger.on.once


def mark_of(spent: Spent) -> Disarmed:
    """What is written into the entry: when the run ended, and which run it was."""
    at = (spent.ended_at or spent.spent_at).astimezone(UTC)
    return Disarmed(at.isoformat(timespec="milliseconds").replace("+00:00", "Z"), spent.run)


def marked_by_another(triggers: Triggers, key: str, run: str) -> Disarmed | None:
    """The entry's mark, unless it names this run: a retry of the run that spent it goes on.

    One written by hand names no run, so it refuses every one. An entry that is gone or was changed refuses none.
    """
    entries = (each for each in triggers.entries if is_once(each) and each.identity == key)
    mark = next((each.disarmed for each in entries if each.disarmed is not None), None)
    return None if mark is None or mark.job_id == run else mark


def unmarked(triggers: Triggers, spent: Sequence[Spent]) -> list[Spent]:
    """Those whose entry is there and armed. An entry that is not there says nothing; twins are one entry."""
    armed = _keys(triggers, disarmed=False) - _keys(triggers, disarmed=True)
    return [each for each in spent if each.key in armed]


def marked(triggers: Triggers, spent: Sequence[Spent]) -> list[Spent]:
    """Those whose entry has a mark, whoever wrote it."""
    disarmed = _keys(triggers, disarmed=True)
    return [each for each in spent if each.key in disarmed]


def _keys(triggers: Triggers, *, disarmed: bool) -> set[str]:
    once = (each for each in triggers.entries if is_once(each))
    return {each.identity for each in once if (each.disarmed is not None) is disarmed}
