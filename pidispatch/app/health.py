"""Gather what decides whether this installation is healthy, each part by itself, and judge it."""

import os
from dataclasses import asdict

from pidispatch.app.databases import opened
from pidispatch.app.reading import standing_of
from pidispatch.app.redishealth import facts_of, redis_address
from pidispatch.app.rooms import disk_bounds, places_of
from pidispatch.config import Settings
from pidispatch.domain.health.health import Facts, Fault, Health, RowFacts, judge
from pidispatch.errors import DatabaseUnavailable, PidispatchError, SchemaDiffers
from pidispatch.gateway.client import ControlDoors
from pidispatch.gateway.control import NAME as CONTROL
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.filesystems import measure
from pidispatch.store import schema
from pidispatch.store.database import Database
from pidispatch.store.read.health import row_facts
from pidispatch.store.read.queue import QueueStatus

QUICK = 2.0  # seconds: who asks for health waits for all parts together

__all__ = ["Fault", "Health", "document", "health_of", "standing_and_health"]


def health_of(
    settings: Settings, database: Database, redis_url: str | None, engine: Engine | None = None
) -> Health:
    """Never raises for a part that does not answer: that is what it tells. `redis_url` None: not asked."""
    problem, difference, rows = _database(database)
    return judge(
        Facts(
            host=settings.worker_name,
            database=problem,
            schema=difference,
            redis=None if redis_url is None else facts_of(redis_url),
            gateway_ready=_gateway(settings),
            rows=rows,
            disks=measure(places_of(settings, engine)),
            disk_bounds=disk_bounds(settings),
        )
    )


def standing_and_health(settings: Settings) -> tuple[QueueStatus, Health]:
    """What `status` shows. Raises what `opened` raises: without rows there is nothing to show."""
    engine = Engine(answer_seconds=int(QUICK))
    try:
        with opened(settings) as database:
            health = health_of(settings, database, redis_address(settings), engine)
            return standing_of(database, settings), health
    finally:
        engine.close()


def _database(database: Database) -> tuple[str | None, str | None, RowFacts | None]:
    for again in (True, False):
        try:
            schema.require(database)
            return None, None, row_facts(database)
        except SchemaDiffers as error:
            return None, str(error), None
        except DatabaseUnavailable as error:
            if not again:  # the first may be a connection of before Postgres was restarted
                return str(error), None, None
        except PidispatchError as error:
            return str(error), None, None
    raise AssertionError("unreachable")


def _gateway(settings: Settings) -> bool | None:
    """None where this user may not ask."""
    control = settings.run_dir / CONTROL
    if not os.access(control, os.W_OK) and os.path.lexists(control):
        return None
    return ControlDoors(control).ready(seconds=QUICK)


def document(health: Health) -> dict[str, object]:
    """As `status --json` and `/healthz` show it."""
    return {"ok": health.ok, "faults": [asdict(fault) for fault in health.red]}
