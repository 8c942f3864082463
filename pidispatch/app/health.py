"""Gather what decides whether this installation is healthy, each part by itself, and judge it."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime

from pidispatch.app.installation import Installation
from pidispatch.app.rooms import disk_bounds, places_of
from pidispatch.app.verbs.queue import standing_of
from pidispatch.domain.health.health import Facts, Fault, Health, RowFacts, judge
from pidispatch.errors import DatabaseUnavailable, GatewayUnavailable, PidispatchError, SchemaDiffers
from pidispatch.gateway.client import NAME as CONTROL
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.filesystems import measure
from pidispatch.store import schema
from pidispatch.store.database import Database
from pidispatch.store.read.health import row_facts
from pidispatch.store.read.queue import QueueStatus

QUICK = 2.0  # seconds: who asks for health waits for all parts together

__all__ = ["Fault", "Health", "busy_providers", "document", "health_of", "standing_and_health"]


def health_of(here: Installation, engine: Engine | None = None) -> Health:
    """Never raises for a part that does not answer: that is what it tells. `engine` None: not asked where its data is."""
    settings = here.settings
    problem, difference, rows = _database(here.any_database)
    return judge(
        Facts(
            host=settings.worker_name,
            database=problem,
            schema=difference,
            redis=here.redis_facts(),
            gateway_ready=_gateway(here),
            rows=rows,
            disks=measure(places_of(settings, engine)),
            disk_bounds=disk_bounds(settings),
        )
    )


def standing_and_health(here: Installation) -> tuple[QueueStatus, Health]:
    """What `status` shows. Raises what `Installation.database` raises: without rows there is nothing to show."""
    database = here.database
    health = health_of(here, here.runtime().engine)
    return standing_of(database, here.settings), health


def busy_providers(here: Installation, *, seconds: float) -> Mapping[str, datetime]:
    """Which providers this host's gateway holds calls back from, by name, and until when.

    Empty where nobody answers, which health tells, or where this user may not ask.
    """
    if not os.access(here.settings.run_dir / CONTROL, os.W_OK):
        return {}
    try:
        return here.gateway.busy_providers(seconds=seconds)
    except GatewayUnavailable:
        return {}


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


def _gateway(here: Installation) -> bool | None:
    """None where this user may not ask."""
    control = here.settings.run_dir / CONTROL
    if not os.access(control, os.W_OK) and os.path.lexists(control):
        return None
    return here.gateway.ready(seconds=QUICK)


def document(health: Health) -> dict[str, object]:
    """As `status --json` and `/healthz` show it."""
    return {"ok": health.ok, "faults": [asdict(fault) for fault in health.red]}
