"""Open, close and remove the doors of this host's runs."""

import threading
from collections.abc import Callable, Collection
from pathlib import Path

import structlog

from pidispatch.domain.providers.calls import Budget, Ticket
from pidispatch.domain.text.redaction import Redactor
from pidispatch.errors import DatabaseRefused, DatabaseUnavailable
from pidispatch.gateway.calls.bounding import RequestBounds
from pidispatch.gateway.calls.proxy import Proxy
from pidispatch.gateway.calls.settling import Settler
from pidispatch.gateway.door.door import Door
from pidispatch.gateway.egress.tunnel import Egress
from pidispatch.gateway.http.listener import check_length, own_directory
from pidispatch.gateway.http.rooms import Limits, Rooms
from pidispatch.gateway.providers import Providers
from pidispatch.ports import Stops, Tickets

LOOK_SECONDS = 0.5


DRAIN_SECONDS = 5.0
SETTLE_SECONDS = 10.0
_LONGEST_RUN_ID = 2**63 - 1

log = structlog.get_logger(__name__)


class Doors:
    """Every open door, under `<run dir>/g/<run id>/s`.

    The box's mount is the directory, so it is kept (and a socket re-made in it works) until `remove`.
    """

    def __init__(
        self,
        run_dir: Path,
        *,
        tickets: Tickets,
        providers: Providers,
        proxy: Proxy,
        settler: Settler,
        bounds: RequestBounds,
        redactor: Redactor,
        egress: Egress,
        limits: Limits,
        secret: bytes,
        budget: Callable[[int], Budget | None],
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        self._root = run_dir / "g"
        self._tickets, self._providers, self._proxy = tickets, providers, proxy
        self._settler, self._secret, self._drain_seconds = settler, secret, drain_seconds
        self._bounds = bounds
        self._redactor = redactor
        self._budget = budget
        self._egress = egress
        self._rooms = Rooms(limits)
        self._lock = threading.Lock()
        self._doors: dict[int, Door] = {}
        check_length(self._root / str(_LONGEST_RUN_ID) / "s")
        own_directory(self._root, 0o700)
        settler.tell(self._settled)

    def open(self, run_id: int) -> Path | None:
        """Listen for the run's current attempt; None when it holds no slot. Raises DatabaseUnavailable."""
        ticket = self._tickets.ticket(run_id)
        return None if ticket is None else self.listen(ticket)

    def listen(self, ticket: Ticket) -> Path:
        directory = self._directory(ticket.run_id)
        with self._lock:
            known = self._doors.get(ticket.run_id)
            if known is not None and known.ticket == ticket:
                return directory
            if known is not None:
                # Another attempt: what the earlier one's box still has open must not pass as this one's.
                known.stop_accepting()
                known.cut()
            own_directory(directory, 0o711)
            self._doors[ticket.run_id] = Door(
                ticket,
                directory / "s",
                tickets=self._tickets,
                providers=self._providers,
                proxy=self._proxy,
                redactor=self._redactor,
                egress=self._egress,
                rooms=self._rooms,
                secret=self._secret,
                budget=self._budget,
            )
        log.info("gateway.door_open", run=ticket.public_id, attempt=ticket.attempt)
        return directory

    def close(self, run_id: int) -> bool:
        """True when no call of this run is open any more and each is settled. Idempotent."""
        with self._lock:
            door = self._doors.get(run_id)
        return self._close(run_id, door)

    def _close(self, run_id: int, door: Door | None) -> bool:
        if door is not None:
            self._end(door)
            with self._lock:
                if self._doors.get(run_id) is door:
                    del self._doors[run_id]
            self._bounds.forget(run_id)
            self._egress.flush(run_id)
            log.info("gateway.door_closed", run=door.ticket.public_id)
        return self._settler.wait(run_id, SETTLE_SECONDS)

    def _settled(self, run_id: int) -> None:
        with self._lock:
            door = self._doors.get(run_id)
        if door is not None:
            door.settled()

    def cut_calls(self, run_id: int) -> None:
        """Abort the run's model calls that are under way; its door stays open. Idempotent."""
        with self._lock:
            door = self._doors.get(run_id)
        if door is not None and (cut := door.cut_calls()):
            log.info("gateway.calls_cut", run=door.ticket.public_id, calls=cut)

    def _end(self, door: Door) -> None:
        door.stop_accepting()
        if not door.drain(self._drain_seconds):
            door.cut()
            if not door.drain(SETTLE_SECONDS):
                log.error("gateway.door_stuck", run=door.ticket.public_id)

    def remove(self, run_id: int) -> None:
        """Close and remove the directory; the caller has proven that the container is gone. Idempotent.

        The caller may be late: a door that the run's next attempt has opened since stays. Raises DatabaseUnavailable.
        """
        with self._lock:
            door = self._doors.get(run_id)
        if self._tickets.ticket(run_id) is not None:
            log.info("gateway.door_kept", run=run_id)
            return
        self._close(run_id, door)
        directory = self._directory(run_id)
        with self._lock:
            if run_id in self._doors or not directory.exists():
                return
            (directory / "s").unlink(missing_ok=True)
            directory.rmdir()

    def close_all(self, seconds: float) -> None:
        """End of the process: no door takes anything new, streams get this long, the rest is aborted."""
        with self._lock:
            doors = list(self._doors.values())
        for door in doors:
            door.stop_accepting()
        threads = [threading.Thread(target=door.drain, args=(seconds,), daemon=True) for door in doors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for door in doors:
            door.cut()
        for door in doors:
            door.drain(SETTLE_SECONDS)

    def _directory(self, run_id: int) -> Path:
        return self._root / str(run_id)


class NoStops:
    """Nobody stops anything."""

    def stopped(self, host: str) -> Collection[int]:  # noqa: ARG002 - the port's name
        return ()


NO_STOPS = NoStops()


class Stopper:
    """A thread that looks twice a second. A new call is refused by the ledger; this ends those under way."""

    def __init__(self, stops: Stops, doors: Doors, host: str, *, pause: float = LOOK_SECONDS) -> None:
        self._stops, self._doors, self._host, self._pause = stops, doors, host, pause
        self._over = threading.Event()
        self._blind = False
        self._thread = threading.Thread(target=self._watch, name="stops", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._over.set()

    def look(self) -> None:
        """Raises DatabaseUnavailable, DatabaseRefused."""
        for run_id in self._stops.stopped(self._host):
            self._doors.cut_calls(run_id)

    def _watch(self) -> None:
        while not self._over.wait(self._pause):
            try:
                self.look()
                self._blind = False
            except (DatabaseUnavailable, DatabaseRefused) as error:
                # Nobody can stop anything while the database is away, and no new call is made.
                if not self._blind:
                    log.warning("gateway.stops_unseen", problem=str(error))
                self._blind = True
            except Exception:
                log.exception("gateway.stops_failed")  # the next look may go well, and none must be the last
