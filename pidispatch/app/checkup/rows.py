"""Check the database: its schema, its rows against each other, the workers that they tell of."""

from collections.abc import Iterator, Sequence
from datetime import timedelta

from pidispatch.config import Settings
from pidispatch.domain.checkup import Finding, Grade
from pidispatch.domain.health import Facts, FaultWord, judge
from pidispatch.store import schema, standing
from pidispatch.store.breakers import BreakerRecord
from pidispatch.store.database import Database
from pidispatch.store.health import row_facts
from pidispatch.store.invariants import look_for_contradictions
from pidispatch.store.schema import Fit
from pidispatch.store.slots import ScheduleRecord, schedules_of
from pidispatch.store.standing import HostRecord, QueueStatus

STALE = timedelta(seconds=30)
MOST_NAMED = 5
# What is red of slots and of who holds them; the rest has lines of its own here.
OF_SLOTS = (FaultWord.HOST_NAME_TAKEN, FaultWord.UNREACHABLE, FaultWord.RUN_STUCK, FaultWord.STOP_UNCONFIRMED)
START_ONE = "start `pidispatch up` or `pidispatch worker` on this host"


def check_schema(database: Database) -> Finding:
    """Raises DatabaseUnavailable."""
    state = schema.state(database)
    if state.fit is Fit.OK:
        return Finding("schema", Grade.OK, f"at {state.wanted}")
    if state.fit is Fit.DAMAGED:
        lacks = f"damaged: at {state.found}, and it lacks {', '.join(state.missing)}"
        return Finding("schema", Grade.FAILED, lacks, "restore the database from a backup")
    way_out = "run `pidispatch db upgrade`" if state.fit is Fit.BEHIND else "install the newer pidispatch"
    found = state.found or "no revision"
    return Finding(
        "schema", Grade.FAILED, f"{state.fit}: at {found}, this version needs {state.wanted}", way_out
    )


def check_rows(database: Database, settings: Settings) -> Iterator[Finding]:
    """Only for a schema that is this version's. Raises DatabaseUnavailable."""
    yield from look_for_contradictions(database)
    yield from check_workers(standing.queue_status(database, ()), settings.worker_name)
    yield from check_schedules(schedules_of(database))
    for fault in judge(Facts(settings.worker_name, rows=row_facts(database))).red:
        if fault.word in OF_SLOTS:
            yield Finding(fault.word, Grade.FAILED, fault.sentence, fault.way_out)


def check_workers(queue: QueueStatus, host: str) -> Iterator[Finding]:
    """Workers of this host live and compare rows with containers; and nothing is held back unnoticed."""
    workers = queue.workers_on(host)
    if workers:
        words = "1 worker lives" if workers == 1 else f"{workers} workers live"
        yield Finding("worker", Grade.OK, f"{words} on {host}")
    else:
        yield Finding(
            "worker", Grade.FAILED, f"no worker lives on {host}: nothing starts, nothing ends", START_ONE
        )
    yield _compared(next((record for record in queue.hosts if record.name == host), None), queue, host)
    if queue.breakers:
        yield Finding(
            "breakers",
            Grade.WARNING,
            f"held back after failures: {', '.join(map(_broken, queue.breakers))}",
            "mend what their runs failed for, then `pidispatch triggers close ID`",
        )
    if queue.paused:
        paused = [f"{pause.scope} since {pause.paused_at:%Y-%m-%d %H:%M:%SZ}" for pause in queue.paused]
        yield Finding(
            "pauses", Grade.WARNING, f"paused: {', '.join(paused)}", "`pidispatch resume [--scope …]`"
        )


def _broken(breaker: BreakerRecord) -> str:
    return f"{breaker.trigger_id} ({breaker.reason}, {breaker.failures} times)"


def _compared(record: HostRecord | None, queue: QueueStatus, host: str) -> Finding:
    if record is None or record.reconciled_at is None:
        return Finding(
            "reconciler", Grade.FAILED, f"rows and containers of {host} were never compared", START_ONE
        )
    age = queue.at - record.reconciled_at
    words = f"rows and containers were compared {max(age.total_seconds(), 0):,.0f} s ago"
    if age > STALE:
        return Finding(
            "reconciler", Grade.FAILED, words, f"{START_ONE}; the log of a worker that runs says why"
        )
    return Finding("reconciler", Grade.OK, words)


def check_schedules(schedules: Sequence[ScheduleRecord]) -> Iterator[Finding]:
    """Each is planned by a host that lives and has its folder."""
    silent = [f"{each.id} of {each.host}" for each in schedules if not each.alive]
    homeless = [f"{each.id} of {each.host}" for each in schedules if each.alive and not each.served]
    if silent:
        way_out = "start a worker there, or put the entry into the triggers file of a host that lives"
        yield Finding(
            "schedules", Grade.FAILED, f"nobody is there to start what is due of {_named(silent)}", way_out
        )
    if homeless:
        way_out = "make the folder, or mend run.folder: until then each instant is skipped"
        yield Finding("schedules", Grade.WARNING, f"no host has the folder of {_named(homeless)}", way_out)
    if schedules and not silent and not homeless:
        yield Finding("schedules", Grade.OK, f"planned by hosts that live: {len(schedules):,}")


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
