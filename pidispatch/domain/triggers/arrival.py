"""Decide what one more request for the same subject leads to."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from pidispatch.domain.runs.run import NewRun
from pidispatch.domain.triggers.subject import RunSubject
from pidispatch.domain.triggers.trigger import WhileRunning

FEWEST, MOST = 2, 3


def replicas_of(run: NewRun, n: int | None) -> tuple[NewRun, ...]:
    """`n` runs that differ in id, number and subject alone, each admitted and paid for by itself.

    None or 1 is the run as it is. Raises ValueError for any number but 1 to 3: the file's grammar lets no other through.
    """
    if n is None or n == 1:
        return (run,)
    if not FEWEST <= n <= MOST:
        raise ValueError(f"a run has {FEWEST} or {MOST} replicas, not {n}")
    return tuple(_replica(run, i, n) for i in range(1, n + 1))


def _replica(run: NewRun, i: int, n: int) -> NewRun:
    subject = None if run.subject is None else replica_subject(run.subject, i)
    return replace(run, public_id=replica_id(run.public_id, i), subject=subject, replica=i, replicas=n)


def replica_id(public_id: str, replica: int) -> str:
    """As in the reference, so that a delivery sent again comes to the same runs."""
    return f"{public_id}-r{replica}"


def replica_subject(subject: str, replica: int | None) -> str:
    """The subject of one replica: replicas of one event do not stand in each other's way."""
    return subject if replica is None else f"{subject}:r{replica}"


WINDOW = 60.0  # seconds in which two sources tell of the same thing; a poller looks once a minute
CRON, CLI = "cron", "cli"
PEOPLE = frozenset({CLI, "api"})  # somebody who asks again after a run has ended means it


class Became(StrEnum):
    """What became of an arrival."""

    STARTED = "started"
    COALESCED = "coalesced"
    QUEUED = "queued"
    SKIPPED = "skipped"
    SUPERSEDING = "superseding"
    DUPLICATE = "duplicate"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Delivery:
    """One event as it is written down. `source` is a forge, poll, cron, cli or api.

    `body_hash` is SHA-256 of a forge's body, so that a delivery under another id is known again; None elsewhere.
    `occurrence` names what happened the same from whatever source tells it. `sender_id` is never a name.
    """

    source: str
    delivery_id: str
    event: str | None = None
    action: str | None = None
    repo: str | None = None
    number: int | None = None
    sender_id: str | None = None
    body_hash: bytes | None = None
    occurrence: str | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A delivery that matched: the subject it is for, and the run that it would start, or `replicas` of it side by side."""

    delivery: Delivery
    subject: RunSubject
    run: NewRun
    while_running: WhileRunning = WhileRunning.QUEUE
    window: float = WINDOW
    replicas: int | None = None


@dataclass(frozen=True, slots=True)
class There:
    """A run of the subject. One that waits for its first go may still be given other content."""

    run_id: int
    public_id: str
    waits: bool
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Arrived:
    """`run` is the run that answers for it, None where none does; `behind` the one that this run waits for.

    `why` is the word of what held it back, where no run did.
    """

    kind: Became
    run_id: int | None = None
    run: str | None = None
    behind: str | None = None
    why: str | None = None

    def __str__(self) -> str:
        match self.kind:
            case Became.STARTED:
                return f"started {self.run}"
            case Became.COALESCED:
                return f"coalesced into {self.run}"
            case Became.QUEUED:
                return f"queued {self.run} behind {self.behind}"
            case Became.SKIPPED:
                return f"skipped: {self.why or f'{self.run} is there'}"
            case Became.SUPERSEDING:
                return f"queued {self.run}, which supersedes {self.behind}"
            case Became.DUPLICATE:
                return "a duplicate" if self.run is None else f"a duplicate: {self.run}"
            case Became.DROPPED:
                return "dropped"
            case _:
                assert_never(self.kind)


@dataclass(frozen=True, slots=True)
class ArrivalStep:
    """What to do. `at` is the run that the answer names: joined, skipped for, waited for or superseded.

    `joins` is the run that waits already when another is superseded.
    """

    kind: Became
    at: There | None = None
    joins: There | None = None


def decide(policy: WhileRunning, live: tuple[There, ...], told: There | None) -> ArrivalStep:
    """`live` are the subject's runs that have not ended, oldest first. `told` is a young run that other sources asked
    for and this one did not: then it tells of the same thing once more, whatever the policy.
    """
    waiting = next((run for run in live if run.waits), None)
    going = next((run for run in reversed(live) if not run.waits), None)
    if told is not None:
        return ArrivalStep(Became.COALESCED, told)
    match policy:
        case WhileRunning.PARALLEL:
            return ArrivalStep(Became.STARTED)
        case WhileRunning.SKIP:
            there = going or waiting
            return ArrivalStep(Became.STARTED) if there is None else ArrivalStep(Became.SKIPPED, there)
        case WhileRunning.QUEUE:
            return _queue(going, waiting)
        case WhileRunning.SUPERSEDE:
            if going is not None and not going.stops:
                return ArrivalStep(Became.SUPERSEDING, going, joins=waiting)
            return _queue(going, waiting)
        case _:
            assert_never(policy)


def _queue(going: There | None, waiting: There | None) -> ArrivalStep:
    """At most one waits: it takes the content of the newest."""
    if waiting is not None:
        return ArrivalStep(Became.COALESCED, waiting)
    return ArrivalStep(Became.STARTED) if going is None else ArrivalStep(Became.QUEUED, going)
