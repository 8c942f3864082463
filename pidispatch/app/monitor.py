"""Answer for the health of this host beside a worker: `/healthz` for supervisors, `/metrics` for Prometheus."""

import json
import threading
from dataclasses import dataclass

from pidispatch.app.health import QUICK, busy_providers, document, health_of
from pidispatch.app.installation import Installation
from pidispatch.app.metrics import disk_gauges, health_gauges, provider_gauge, queue_gauges
from pidispatch.app.rooms import places_of
from pidispatch.app.verbs.queue import standing_of
from pidispatch.domain.health.health import FaultWord, Health, unanswered
from pidispatch.errors import PidispatchError
from pidispatch.monitoring.metrics import CONTENT_TYPE, Gauge, exposition
from pidispatch.monitoring.refreshed import PATIENCE, Refreshed
from pidispatch.monitoring.server import Answer, serve
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.filesystems import measure
from pidispatch.store.read.today import measure_today

UNREADABLE = {FaultWord.DATABASE_SILENT, FaultWord.SCHEMA_DIFFERS}


@dataclass(frozen=True, slots=True)
class MonitorPass:
    """What one look found; `gauges` has nothing of the rows when they could not be read."""

    health: Health
    gauges: tuple[Gauge, ...]


class Monitor:
    """Looks when it is asked, over an installation of its own: a stuck connection takes nothing from the worker."""

    def __init__(self, here: Installation, engine: Engine | None = None) -> None:
        self._here = here
        self._settings = here.settings
        self._engine = engine
        self._look: Refreshed[MonitorPass] = Refreshed(self.look)

    def run(self, stop: threading.Event) -> None:
        """Serve both pages until `stop`, where the settings name an address."""
        if self._settings.health is not None:
            serve(self._settings.health, {"/healthz": self.healthz, "/metrics": self.metrics}, stop)
            self.close()

    def close(self) -> None:
        self._here.close()

    def look(self) -> MonitorPass:
        health = health_of(self._here, self._engine)
        disks = disk_gauges(self._settings.worker_name, measure(places_of(self._settings, self._engine)))
        if UNREADABLE & {fault.word for fault in health.red}:
            return MonitorPass(health, tuple(disks))
        try:
            queue = standing_of(self._here.any_database, self._settings)
            gauges = queue_gauges(queue, measure_today(self._here.any_database))
            busy = busy_providers(self._here, seconds=QUICK)
            return MonitorPass(
                health, (*disks, *gauges, provider_gauge(self._settings.worker_name, busy, queue.at))
            )
        except PidispatchError:
            return MonitorPass(health, tuple(disks))  # the next look tells why

    def healthz(self) -> Answer:
        health = self._found().health
        body = json.dumps(document(health)) + "\n"
        return Answer(200 if health.ok else 503, "application/json", body.encode())

    def metrics(self) -> Answer:
        found = self._found()
        return Answer(200, CONTENT_TYPE, exposition([*health_gauges(found.health), *found.gauges]))

    def _found(self) -> MonitorPass:
        return self._look.get() or MonitorPass(unanswered(PATIENCE), ())
