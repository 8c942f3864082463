"""Decide from facts what is red: what an operator must look at now, and the way out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from pidispatch.domain.disks import Bounds, FileSystem, Room
from pidispatch.domain.healthrows import (
    Elsewhere,
    HostFacts,
    OpenCall,
    Overdue,
    Passing,
    Stopping,
    Unattended,
)
from pidispatch.domain.reconcile import GO_LIMIT, PREPARING_LIMIT
from pidispatch.domain.run import OCCUPYING, State

PATIENCE = timedelta(seconds=30)  # what is not done within it was promised and is not kept
CALL_LIMIT = timedelta(minutes=15)
DRAIN_LIMIT = timedelta(seconds=60)  # a door that closes drains for 30 s
MOST_NAMED = 5
REFUSED_SHOWN = timedelta(minutes=10)  # a supervisor starts what was refused again and again
# How long a run may hold its slot in each state that passes by itself. A run with its go has its deadline instead, and
# one that was asked to stop has PATIENCE from then on, whatever its state.
STATE_LIMITS = {
    State.ADMITTED: timedelta(seconds=60),
    State.PREPARING: PREPARING_LIMIT + PATIENCE,
    State.RUNNING: GO_LIMIT + PATIENCE,
    State.FINISHING: DRAIN_LIMIT + PATIENCE,
}

START_ONE = "start `pidispatch up` or `pidispatch worker` there; the log of a worker that runs says why"


class FaultWord(StrEnum):
    """Every fault there is: the label of a metric, so the list is closed."""

    CHECK_SILENT = "check-silent"
    DATABASE_SILENT = "database-silent"
    SCHEMA_DIFFERS = "schema-differs"
    REDIS_SILENT = "redis-silent"
    REDIS_UNWRITABLE = "redis-unwritable"
    REDIS_EVICTS = "redis-evicts"
    REDIS_FORGETS = "redis-forgets"
    GATEWAY_SILENT = "gateway-silent"
    NOT_RECONCILED = "not-reconciled"
    UNREACHABLE = "unreachable"
    BELLS_SILENT = "bells-silent"
    HOST_NAME_TAKEN = "host-name-taken"
    RUN_STUCK = "run-stuck"
    STOP_UNCONFIRMED = "stop-unconfirmed"
    CALL_HELD = "call-held"
    SCHEDULE_UNATTENDED = "schedule-unattended"
    DISK_LOW = "disk-low"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is red: its word for programs, a sentence and the way out for people."""

    word: FaultWord
    sentence: str
    way_out: str


@dataclass(frozen=True, slots=True)
class Health:
    """`red` is empty when all is well."""

    red: tuple[Fault, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.red


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What the rows say at `at`, Postgres's clock."""

    at: datetime
    hosts: Sequence[HostFacts] = ()
    overdue: Sequence[Overdue] = ()
    stopping: Sequence[Stopping] = ()
    calls: Sequence[OpenCall] = ()
    unattended: Sequence[Unattended] = ()
    passing: Sequence[Passing] = ()
    elsewhere: Sequence[Elsewhere] = ()


@dataclass(frozen=True, slots=True)
class RedisFacts:
    """`problem` when it does not answer; else why it takes no write, whether it may throw bells away, and a restart would.

    `policy` and `append_only` are None where this user may not ask.
    """

    problem: str | None = None
    unwritable: str | None = None
    policy: str | None = "noeviction"
    append_only: bool | None = True


@dataclass(frozen=True, slots=True)
class Facts:
    """What was found, seen from `host`. None is what was not asked, or could not be: it makes nothing red.

    `database` and `schema` are the sentence of what is wrong with them.
    """

    host: str
    database: str | None = None
    schema: str | None = None
    redis: RedisFacts | None = None
    gateway_ready: bool | None = None
    rows: RowFacts | None = None
    disks: Sequence[FileSystem] = ()
    disk_bounds: Bounds = field(default_factory=Bounds)


def judge(facts: Facts) -> Health:
    return Health(tuple(_faults(facts)))


def unanswered(seconds: float) -> Health:
    """The check-up itself did not come to an end in time."""
    sentence = (
        f"a service accepts connections and does not answer: the check-up was not done in {seconds:.0f} s"
    )
    way_out = "see that Postgres, Redis and the gateway run and are not stopped: `pidispatch doctor`"
    return Health((Fault(FaultWord.CHECK_SILENT, sentence, way_out),))


def _faults(facts: Facts) -> Iterator[Fault]:
    if facts.database is not None:
        yield Fault(
            FaultWord.DATABASE_SILENT,
            facts.database,
            "start Postgres, or mend DATABASE_URL; runs that go on wait for it",
        )
    if facts.schema is not None:
        yield Fault(
            FaultWord.SCHEMA_DIFFERS,
            facts.schema,
            "`pidispatch db check` says which side is older; see its way out",
        )
    yield from redis_faults(facts.redis)
    for disk in facts.disks:
        if disk.room(facts.disk_bounds) >= Room.LOW:
            yield Fault(
                FaultWord.DISK_LOW,
                f"{disk.in_words()} on {facts.host}: nothing starts there, and the run that grows is stopped",
                "remove what is not needed there; PIDISPATCH_DISK_ADMIT says how much must be free",
            )
    rows = facts.rows
    if facts.gateway_ready is False and (rows is None or _has_workers(rows, facts.host)):
        yield Fault(
            FaultWord.GATEWAY_SILENT,
            f"no gateway answers as ready on {facts.host}: nothing starts there, and no model call passes",
            "start `pidispatch up`, or `python -m pidispatch.entrypoints.gateway` beside the worker",
        )
    if rows is not None:
        yield from _hosts(rows)
        yield from _runs(rows)
        yield from _schedules(rows)


def redis_faults(redis: RedisFacts | None) -> Iterator[Fault]:
    """What could not be checked makes nothing red here; `doctor` says that it was not."""
    if redis is None:
        return
    if redis.problem is not None:
        way_out = "start Redis, or mend REDIS_URL; until then nothing new starts, and runs still end"
        yield Fault(FaultWord.REDIS_SILENT, redis.problem, way_out)
        return
    if redis.unwritable is not None:
        yield Fault(
            FaultWord.REDIS_UNWRITABLE,
            f"Redis takes no bells: {redis.unwritable}",
            "see its log, memory, disk and role (a replica takes none), and this user's rights (docs/operations.md);"
            " until then nothing new starts, and runs still end",
        )
    if redis.policy not in {"noeviction", None}:
        yield Fault(
            FaultWord.REDIS_EVICTS,
            f"Redis may throw bells away when its memory is full ({redis.policy})",
            "set `maxmemory-policy noeviction`",
        )
    if redis.append_only is False:
        yield Fault(
            FaultWord.REDIS_FORGETS,
            "Redis keeps no append-only file: a restart loses bells",
            "set `appendonly yes`",
        )


def _has_workers(rows: RowFacts, name: str) -> bool:
    return any(host.name == name and host.worker_since is not None for host in rows.hosts)


def _hosts(rows: RowFacts) -> Iterator[Fault]:
    for host in rows.hosts:
        yield from _names(host, rows.at)
        if host.worker_since is not None:
            since = max(host.worker_since, host.reconciled_at or host.worker_since)
            if rows.at - since > PATIENCE:
                yield Fault(
                    FaultWord.NOT_RECONCILED,
                    f"rows and containers of {host.name} were not compared for {_seconds(rows.at - since)}",
                    "see that the Docker engine answers there; the worker's log says `reconcile_failed` and why",
                )
        elif host.used and rows.at - host.heartbeat_at > PATIENCE:
            yield Fault(
                FaultWord.UNREACHABLE,
                f"{host.name} holds {host.used} {'run' if host.used == 1 else 'runs'} and no worker of it"
                f" was heard for {_seconds(rows.at - host.heartbeat_at)}; they keep their slots and money",
                f"{START_ONE}; `pidispatch forget-host {host.name}` gives up a host that is gone for good",
            )


def _names(host: HostFacts, now: datetime) -> Iterator[Fault]:
    way_out = (
        "give each machine a PI_WORKER_NAME of its own; its runs in boxes stay with the one that started them"
    )
    if host.machines > 1:
        sentence = (
            f"{host.machines} machines work under the host name {host.name}; the later ones admit nothing"
        )
        yield Fault(FaultWord.HOST_NAME_TAKEN, sentence, way_out)
    elif host.refused_at is not None and now - host.refused_at <= REFUSED_SHOWN:
        yield Fault(
            FaultWord.HOST_NAME_TAKEN,
            f"another machine wanted to work under the host name {host.name} and was refused"
            f" {_seconds(now - host.refused_at)} ago ({host.refused})",
            way_out,
        )


def _runs(rows: RowFacts) -> Iterator[Fault]:
    yield from _slots(rows)
    overdue = [f"{run.public_id} on {run.host}" for run in rows.overdue if rows.at - run.since > PATIENCE]
    if overdue:
        yield Fault(
            FaultWord.BELLS_SILENT,
            f"runs could start for {_seconds(PATIENCE)} and nothing took them: {_named(overdue)}",
            "see that Redis answers the worker, that its gateway is ready, and its log: `admission_failed` says why",
        )
    stopping = [f"{run.public_id} on {run.host}" for run in rows.stopping if rows.at - run.since > PATIENCE]
    if stopping:
        yield Fault(
            FaultWord.STOP_UNCONFIRMED,
            f"runs were asked to stop more than {_seconds(PATIENCE)} ago and are not proven gone: {_named(stopping)}",
            "see that a worker and the Docker engine of that host answer: `docker ps`",
        )
    held = [call.public_id for call in rows.calls if _stays_held(call, rows.at)]
    if held:
        yield Fault(
            FaultWord.CALL_HELD,
            f"model calls stay open: {_named(sorted(set(held)))}",
            "restart the gateway of that host: it settles what an earlier one left open at what it held",
        )


def _slots(rows: RowFacts) -> Iterator[Fault]:
    stuck = [
        f"{run.public_id} on {run.host} {run.state} for {_seconds(rows.at - run.since)}"
        for run in rows.passing
        if rows.at - run.since > STATE_LIMITS[run.state]
    ]
    if stuck:
        yield Fault(
            FaultWord.RUN_STUCK,
            f"runs hold their slots and come no further: {_named(stuck)}",
            "see that the Docker engine and the gateway of that host answer; the worker's log says"
            " `reconcile_action_failed`, `not_finished` or `box_elsewhere`",
        )
    if rows.elsewhere:
        named = _named([f"{run.public_id} on {run.host}" for run in rows.elsewhere])
        hosts = _named(sorted({run.host for run in rows.elsewhere}))
        yield Fault(
            FaultWord.UNREACHABLE,
            f"runs are in boxes of an engine that no worker of their host has: {named}; they keep their slots and money",
            f"start a worker on the machine with that engine; `pidispatch forget-host {hosts}` gives up what is gone for"
            " good",
        )


def _schedules(rows: RowFacts) -> Iterator[Fault]:
    """No host that lives has the entry in its file, or it would have taken the schedule over."""
    if rows.unattended:
        named = [f"{each.schedule} of {each.host}" for each in rows.unattended]
        hosts = _named(sorted({each.host for each in rows.unattended}))
        yield Fault(
            FaultWord.SCHEDULE_UNATTENDED,
            f"nobody is there to start what is due of schedules: {_named(named)}",
            f"start a worker on {hosts}, or put the entries into the triggers file of a host that lives;"
            " `pidispatch forget-host HOST` gives up a host that is gone for good",
        )


def _stays_held(call: OpenCall, now: datetime) -> bool:
    """A call may be open while its run goes on, and while the door of an ended box drains."""
    if call.state not in OCCUPYING:
        return True
    if call.state is State.FINISHING and now - call.state_since > DRAIN_LIMIT:
        return True
    return now - call.opened_at > CALL_LIMIT


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _seconds(length: timedelta) -> str:
    return f"{length.total_seconds():,.0f} s"
