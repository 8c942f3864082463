"""Decide what becomes of the instants of a schedule that have come, also of those that nobody was there for."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from pidispatch.domain import words
from pidispatch.domain.triggers import Missed

PUNCTUAL = timedelta(seconds=60)  # a restart of a worker makes nothing late
MOST_MADE_UP = 24  # runs that `all` makes up for, the newest
MADE_UP = {Missed.SKIP: 0, Missed.ONCE: 1, Missed.ALL: MOST_MADE_UP}
LONGEST_SPREAD = 900  # seconds
APART = timedelta(minutes=1)


class SlotState(StrEnum):
    RAN = "ran"
    DEFERRED = "deferred"
    SKIPPED = "skipped"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Slot:
    """One instant and what becomes of it; a run for RAN and DEFERRED, the latter not before `not_before`."""

    planned_at: datetime
    state: SlotState
    reason: str | None = None
    not_before: datetime | None = None


def decide(
    schedule: str, instants: Sequence[datetime], *, later: int, now: datetime, missed: Missed
) -> list[Slot]:
    """A slot for each of the instants, which ascend and have come; `later` more have come after them.

    What is at most a minute late runs. Of what is later than that, `once` makes up for the newest, and only when nothing
    newer runs; `all` for the newest 24. What is made up waits a time of the schedule's own, so that many schedules do
    not start together.
    """
    slots: list[Slot] = []
    made_up = 0
    for place, instant in enumerate(instants):
        newer = len(instants) - 1 - place + later
        late = now - instant
        if late <= PUNCTUAL:
            slots.append(Slot(instant, SlotState.RAN))
        elif missed is Missed.SKIP:
            slots.append(Slot(instant, SlotState.SKIPPED, words.LATE))
        elif newer >= MADE_UP[missed]:
            reason = words.MADE_UP_BY_A_NEWER if missed is Missed.ONCE else words.TOO_MANY_MISSED
            slots.append(Slot(instant, SlotState.MISSED, reason))
        else:
            until = now + spread(schedule, late) + made_up * APART
            slots.append(Slot(instant, SlotState.DEFERRED, words.CATCH_UP, until))
            made_up += 1
    return slots


def spread(schedule: str, late: timedelta) -> timedelta:
    """Between nothing and a quarter of an hour, and no more than it is late: always the same for one schedule."""
    longest = min(LONGEST_SPREAD, int(late.total_seconds()))
    number = int.from_bytes(hashlib.sha256(schedule.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return timedelta(seconds=number % (longest + 1))
