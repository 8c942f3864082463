"""Give up a host that is gone: its runs are lost, and their slots are free."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text

from pidispatch.domain import words
from pidispatch.domain.runs.outcome import End
from pidispatch.domain.runs.run import BoxEnd, Claim, Occupant, Outcome
from pidispatch.domain.triggers.arrival import Arrival
from pidispatch.domain.triggers.catchup import Slot
from pidispatch.domain.triggers.inforce import ScheduleEntry, Standing, Unrunnable
from pidispatch.errors import PidispatchError, StaleEpoch
from pidispatch.store.audit import audit
from pidispatch.store.database import Database
from pidispatch.store.hosts.hosts import ALIVE_SECONDS, STRANDED_SQL
from pidispatch.store.runs.calls import PostgresTickets
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs
from pidispatch.store.tables import OCCUPYING_SQL
from pidispatch.store.triggers.schedules import Schedules

LOST = End(Outcome.FAILED, words.LOST, words.HOST_FORGOTTEN)

STANDING = text(f"""
SELECT s.heartbeat_at, l.alive,
       ARRAY(SELECT r.public_id FROM runs r LEFT JOIN run_attempts a ON a.run_id = r.id AND a.attempt = r.attempt
             WHERE r.host = h.name AND r.state IN ({OCCUPYING_SQL}) AND (NOT l.alive OR {STRANDED_SQL}) ORDER BY r.id)
         AS runs,
       (SELECT count(*) FROM runs r WHERE r.pinned_host = h.name AND r.state IN ('queued', 'deferred', 'held'))
         AS waiting
FROM hosts h
CROSS JOIN LATERAL (
  SELECT greatest(h.heartbeat_at, (SELECT max(w.heartbeat_at) FROM workers w WHERE w.host = h.name)) AS heartbeat_at) s
CROSS JOIN LATERAL (SELECT s.heartbeat_at > clock_timestamp() - interval '{ALIVE_SECONDS} seconds' AS alive) l
WHERE h.name = :host
""")  # noqa: S608 - fixed words
FORGET_WORKERS = text("DELETE FROM workers WHERE host = :host")
FORGET_REFUSAL = text("UPDATE hosts SET refused_at = NULL, refused = NULL WHERE name = :host")


class NoSuchHost(PidispatchError):
    """No worker was ever registered under this name."""


class HostAlive(PidispatchError):
    """The host gives signs of life: its runs can be stopped, and need not be given up."""


@dataclass(frozen=True, slots=True)
class Silence:
    """What would be given up of a host: the runs it holds, all if it has been silent since `heartbeat_at`.

    Of one that is `alive` only those in boxes of an engine that none of its workers has. `waiting`: how many wait for it
    alone.
    """

    host: str
    heartbeat_at: datetime
    runs: Sequence[str]
    waiting: int
    alive: bool


def silent_host(database: Database, host: str) -> Silence:
    """Raises NoSuchHost, HostAlive."""
    with database.transaction() as connection:
        row = connection.execute(STANDING, {"host": host}).one_or_none()
    if row is None:
        raise NoSuchHost(f"there is no host {host!r}; `pidispatch status` lists them")
    if row.alive and not row.runs:
        raise HostAlive(
            f"{host} gave a sign of life within the last {ALIVE_SECONDS} s; `pidispatch cancel` stops its runs"
        )
    return Silence(host, row.heartbeat_at, row.runs, row.waiting, row.alive)


def forget_host(database: Database, host: str, *, actor: str) -> Sequence[str]:
    """End every run that `silent_host` names as lost, and return their public ids. Raises NoSuchHost, HostAlive.

    What may have been spent is kept. The host's row stays: should the host come back, its containers must be known as
    ours, and are removed, since no live row stands for them. Its schedules end, unless another host took them over.
    """
    found = silent_host(database, host)
    runs = Runs(database)
    lost = []
    for run in runs.occupants(host):
        if run.public_id not in found.runs:
            continue
        # It may come back at any time, and then its own word counts.
        if run.public_id in silent_host(database, host).runs and _lose(database, runs, run):
            lost.append(run.public_id)
    if not found.alive:
        _forget_schedules(database, host)
    with database.transaction() as connection:
        if not found.alive:
            connection.execute(FORGET_WORKERS, {"host": host})
        connection.execute(FORGET_REFUSAL, {"host": host})
        audit(connection, "forget-host", host, actor, {"lost": list(lost)})
    return lost


def _forget_schedules(database: Database, host: str) -> None:
    """As if its file were empty: what had come and nobody planned is skipped, as of an entry that was removed."""
    Schedules(database, host=host, make=_no_run).sync(Standing)


def _no_run(entry: ScheduleEntry, slot: Slot, previous: datetime | None) -> Arrival | Unrunnable:
    del entry, slot, previous
    return Unrunnable(words.REMOVED)


def _lose(database: Database, runs: Runs, run: Occupant) -> bool:
    """False when somebody else moved the run meanwhile."""
    try:
        claim = runs.finishing(Claim(run.run_id, run.public_id, run.attempt, run.epoch))
        PostgresTickets(database, timeout=0).assume_calls(run.run_id)
        return Endings(database).end(claim, LOST, BoxEnd())
    except StaleEpoch:
        return False
