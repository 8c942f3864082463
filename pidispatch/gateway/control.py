"""Answer the worker on the control socket: doors, providers, health."""

import os
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from urllib.parse import parse_qs

from pidispatch.domain.providers.calls import ProviderFacts
from pidispatch.domain.providers.rates import Rating
from pidispatch.domain.text.redaction import MOST_TEXT, Redactor
from pidispatch.errors import DatabaseUnavailable
from pidispatch.gateway.calls.pressure import Pressure
from pidispatch.gateway.client import NAME
from pidispatch.gateway.door.doors import Doors
from pidispatch.gateway.http.http1 import Head, Wire, problem
from pidispatch.gateway.http.listener import Listener
from pidispatch.gateway.prices.table import Prices
from pidispatch.gateway.providers import Providers

_RUN = re.compile(r"/runs/([1-9][0-9]{0,18})(/directory)?")
_RUN_ID = re.compile(r"[1-9][0-9]{0,18}")
_PROVIDER = re.compile(r"/providers/([A-Za-z0-9._-]{1,64})")


def _is_ours(uid: int) -> bool:
    return uid in {0, os.geteuid()}


class Knowledge:
    """Answers what `ports.Doors` asks of providers on this side of the control socket."""

    def __init__(self, providers: Providers, prices: Prices, pressure: Pressure) -> None:
        self._providers, self._prices, self._pressure = providers, prices, pressure

    def busy(self) -> Mapping[str, datetime]:
        return self._pressure.busy()

    def facts(self, name: str, model: str | None, run: int | None = None) -> ProviderFacts | None:
        facts = self._providers.facts(name, model)
        if facts is None:
            return None
        price = None if model is None else self._prices.find(name, model)
        return replace(
            facts,
            rating=Rating.UNKNOWN if price is None else price.rating,
            busy_until=self._pressure.busy_until(name, model, run),
        )


class Control:
    """The control socket. It answers before the gateway is ready, and says so; doors open only after."""

    def __init__(
        self, run_dir: Path, *, doors: Doors, knowledge: Knowledge, redactor: Redactor, boot: datetime
    ) -> None:
        self._doors, self._knowledge, self._boot = doors, knowledge, boot
        self._redactor = redactor
        self.ready = False
        self._listener = Listener(run_dir / NAME, 0o600, self._serve, admits=_is_ours)

    def close(self) -> None:
        self._listener.stop_accepting()
        self._listener.wait_quiet(1.0)
        self._listener.hang_up()

    def _serve(self, wire: Wire, head: Head) -> None:
        if (head.method, head.path) == ("POST", "/redact"):
            self._redact(wire, head)
            return
        wire.read_body(head, 64 * 1024)
        try:
            self._route(wire, head)
        except DatabaseUnavailable as error:
            wire.answer(503, problem("unavailable", str(error)))
        except OSError as error:
            wire.answer(500, problem("failed", f"{type(error).__name__}: {error.strerror}"))

    def _route(self, wire: Wire, head: Head) -> None:
        if (head.method, head.path) == ("GET", "/healthz"):
            health = {"ready": self.ready, "pid": os.getpid(), "boot": self._boot.isoformat()}
            wire.answer(200 if self.ready else 503, health)
        elif (head.method, head.path) == ("GET", "/providers"):
            busy = {name: until.isoformat() for name, until in self._knowledge.busy().items()}
            wire.answer(200, {"busy": busy})
        elif head.method == "GET" and (named := _PROVIDER.fullmatch(head.path)):
            self._provider(wire, named[1], head.query)
        elif run := _RUN.fullmatch(head.path):
            self._run(wire, head.method, int(run[1]), directory=run[2] is not None)
        else:
            wire.answer(404, problem("not_found", "there is nothing at this path"))

    def _redact(self, wire: Wire, head: Head) -> None:
        """Whoever keeps something of a run asks here, since no other process knows the providers' keys."""
        masked = self._redactor.data(wire.read_body(head, MOST_TEXT))
        fields = (("content-type", "application/octet-stream"), ("content-length", str(len(masked))))
        wire.start(200, fields)
        wire.write(masked)

    def _provider(self, wire: Wire, name: str, query: str) -> None:
        asked = parse_qs(query)
        model, run = (asked.get(each, [None])[0] for each in ("model", "run"))
        run_id = int(run) if run is not None and _RUN_ID.fullmatch(run) else None
        facts = self._knowledge.facts(name, model, run_id)
        if facts is None:
            wire.answer(404, problem("not_found", "no such provider"))
            return
        busy = None if facts.busy_until is None else facts.busy_until.isoformat()
        wire.answer(200, {**asdict(facts), "busy_until": busy})

    def _run(self, wire: Wire, method: str, run_id: int, *, directory: bool) -> None:
        if not self.ready:
            wire.answer(503, problem("unavailable", "the gateway is starting"))
        elif method == "PUT" and not directory:
            self._open(wire, run_id)
        elif method == "DELETE" and directory:
            self._doors.remove(run_id)
            wire.answer(204)
        elif method == "DELETE":
            settled = self._doors.close(run_id)
            wire.answer(200 if settled else 503, {"settled": settled})
        else:
            wire.answer(405, problem("not_allowed", "this path does not take that method"))

    def _open(self, wire: Wire, run_id: int) -> None:
        directory = self._doors.open(run_id)
        if directory is None:
            wire.answer(404, problem("not_found", "the run holds no slot"))
            return
        wire.answer(201, {"directory": str(directory)})
