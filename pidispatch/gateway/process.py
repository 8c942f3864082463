"""Run the gateway: boot, serve, and end in order."""

import contextlib
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import structlog

from pidispatch.domain.text.masking import Keys
from pidispatch.domain.text.redaction import Redactor
from pidispatch.errors import ConfigurationRefused, DatabaseUnavailable
from pidispatch.gateway.calls.bounding import RequestBounds
from pidispatch.gateway.calls.departures import Departures
from pidispatch.gateway.calls.pressure import Pressure
from pidispatch.gateway.calls.proxy import HOLD_SECONDS, Proxy
from pidispatch.gateway.calls.reach import Reach
from pidispatch.gateway.calls.settling import Settler
from pidispatch.gateway.client import NAME
from pidispatch.gateway.control import Control, Knowledge
from pidispatch.gateway.door.doors import DRAIN_SECONDS, NO_STOPS, Doors, Stopper
from pidispatch.gateway.door.keys import load_secret
from pidispatch.gateway.egress.tunnel import Egress
from pidispatch.gateway.http.listener import check_length, shared_directory
from pidispatch.gateway.http.rooms import USUAL_LIMITS, Limits
from pidispatch.gateway.prices.table import NO_PRICES, Prices
from pidispatch.gateway.providers import Providers
from pidispatch.ports import CallLedger, Clock, Stops, Tickets

STOP_SECONDS = 30.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Found = TypeVar("Found")
log = structlog.get_logger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


class Gateway:
    """The gateway of one host. Raises ConfigurationRefused for a run directory or secret it cannot use.

    `run_dir` must have an existing parent; `secret_file` is made on first use. `host` names whose runs are served;
    `provider_tools` what providers may run, keep or fetch for any run (`references.Reach`).
    """

    def __init__(
        self,
        run_dir: Path,
        secret_file: Path,
        host: str,
        *,
        tickets: Tickets,
        ledger: CallLedger,
        providers: Providers,
        prices: Prices = NO_PRICES,
        pressure: Pressure | None = None,
        redactor: Redactor | None = None,
        stops: Stops = NO_STOPS,
        egress: Egress | None = None,
        limits: Limits = USUAL_LIMITS,
        provider_tools: Iterable[str] = (),
        clock: Clock = utc_now,
        hold_seconds: float = HOLD_SECONDS,
        drain_seconds: float = DRAIN_SECONDS,
        stop_seconds: float = STOP_SECONDS,
        retry_seconds: float = 1.0,
    ) -> None:
        self._host, self._tickets, self._ledger = host, tickets, ledger
        self._clock, self._stop_seconds, self._retry_seconds = clock, stop_seconds, retry_seconds
        self._boot = clock()
        self._stopping = threading.Event()
        # The worker mounts what it is told, and the engine takes absolute paths alone.
        run_dir = run_dir.absolute()
        check_length(run_dir / NAME)
        shared_directory(run_dir)
        self._lock = _lock(run_dir)
        secret = load_secret(secret_file)
        self._departures = Departures()
        self._pressure = pressure or Pressure()
        redactor = redactor or Redactor(providers.secrets())
        self._settler = Settler(ledger)
        bounds = RequestBounds()
        self._egress = egress or Egress()
        self._proxy = Proxy(
            ledger,
            self._settler,
            self._departures,
            bounds=bounds,
            reach=Reach(self._egress.allowed, evidence=self._egress.evidence, tools=provider_tools),
            prices=prices,
            pressure=self._pressure,
            redactor=redactor,
            keys=Keys(providers.secrets()),
            hold_seconds=hold_seconds,
        )
        self._doors = Doors(
            run_dir,
            tickets=tickets,
            providers=providers,
            proxy=self._proxy,
            settler=self._settler,
            bounds=bounds,
            redactor=redactor,
            egress=self._egress,
            limits=limits,
            secret=secret,
            budget=ledger.budget,
            drain_seconds=drain_seconds,
        )
        self._stopper = Stopper(stops, self._doors, host)
        self._control = Control(
            run_dir,
            doors=self._doors,
            knowledge=Knowledge(providers, prices, self._pressure),
            redactor=redactor,
            boot=self._boot,
        )

    def serve(self) -> None:
        """Serve until SIGTERM or SIGINT; call it from the main thread."""
        failures: list[BaseException] = []
        ours, theirs = socket.socketpair()
        with ours, theirs, _waking(theirs):
            self._proxy.prepare()
            boot = threading.Thread(
                target=self._boot_or_end, args=(failures, theirs), name="boot", daemon=True
            )
            boot.start()
            ours.recv(1)
            log.info("gateway.stopping", failed=bool(failures))
            self.stop()
        if failures:
            raise failures[0]

    def start(self) -> None:
        """Take over from an earlier gateway, open the doors of all runs that hold a slot, become ready."""
        # No call of ours is open yet, so every open one is an earlier gateway's; this clock may lag Postgres's.
        before = self._boot + timedelta(days=1)
        assumed = self._until_answered(lambda: self._ledger.assume_open(self._host, before))
        tickets = self._until_answered(lambda: self._tickets.occupying(self._host))
        if assumed is None or tickets is None:
            return
        for ticket in tickets:
            self._doors.listen(ticket)
        self._stopper.start()
        self._control.ready = True
        log.info("gateway.ready", host=self._host, doors=len(tickets), assumed=assumed)

    def stop(self) -> None:
        """Take nothing new, drain streams, abort the rest, settle."""
        self._stopping.set()
        self._stopper.close()
        self._control.ready = False
        self._pressure.stop()
        self._doors.close_all(self._stop_seconds)
        if not self._settler.wait(None, 5.0):
            log.error("gateway.unsettled", host=self._host)
        self._egress.close()
        self._control.close()
        self._departures.close()
        self._proxy.close()
        os.close(self._lock)
        log.info("gateway.stopped", host=self._host)

    def _boot_or_end(self, failures: list[BaseException], wake: socket.socket) -> None:
        try:
            self.start()
        except Exception as error:  # noqa: BLE001 - handed to `serve`, which raises it
            failures.append(error)
            wake.send(b"x")

    def _until_answered(self, ask: Callable[[], Found]) -> Found | None:
        while not self._stopping.is_set():
            try:
                return ask()
            except DatabaseUnavailable as error:
                log.warning("gateway.waits_for_database", problem=error.problem)
            self._stopping.wait(self._retry_seconds)
        return None


@contextlib.contextmanager
def _waking(sock: socket.socket) -> Iterator[None]:
    """Make the signals write to this socket, whichever thread the kernel gives them to."""
    sock.setblocking(False)
    before = {number: signal.signal(number, lambda _number, _frame: None) for number in _SIGNALS}
    fd = signal.set_wakeup_fd(sock.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(fd)
        for number, handler in before.items():
            signal.signal(number, handler)


def _lock(run_dir: Path) -> int:
    """Hold the run directory: a second gateway would take the first one's sockets away."""
    fd = os.open(run_dir / "gateway.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(fd)
        raise ConfigurationRefused([f"another gateway runs in {run_dir}"]) from error
    return fd
