"""Add up where each run went and where it was not let, and write that now and then."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import structlog

from pidispatch.domain.egress.allowlist import ELSEWHERE, MOST_HOSTS, EgressUse, Reason
from pidispatch.domain.egress.hostname import HOST_MAX, Target
from pidispatch.errors import DatabaseUnavailable
from pidispatch.ports import EgressUses

FLUSH_SECONDS = 3.0
MOST_WAITING = 20_000  # of all runs, while the database is away

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Sum:
    connections: int = 0
    up: int = 0
    down: int = 0
    first: float = 0.0
    last: float = 0.0


@dataclass(frozen=True, slots=True)
class _Key:
    target: Target
    allowed: bool
    reason: Reason


_Sums = dict[_Key, _Sum]


class EgressLog:
    """A loop in a box costs memory and rows in proportion to its hosts at most, and those are bounded.

    `mask` takes secrets out of the names, which the agent chooses. Without a store nothing is kept.
    """

    def __init__(
        self,
        store: EgressUses | None,
        *,
        mask: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
        flush_seconds: float = FLUSH_SECONDS,
    ) -> None:
        self._store, self._mask, self._clock, self._flush_seconds = store, mask, clock, flush_seconds
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._runs: dict[int, _Sums] = {}
        self._stopping = threading.Event()
        if store is not None:
            threading.Thread(target=self._keep_flushing, name="evidence", daemon=True).start()

    def note(
        self,
        run_id: int,
        target: Target,
        reason: Reason,
        *,
        allowed: bool,
        connections: int = 0,
        up: int = 0,
        down: int = 0,
    ) -> None:
        """Any thread; it waits for nothing."""
        key = _Key(Target(_shown(self._mask(target.host)), target.port), allowed, reason)
        now = self._clock()
        with self._lock:
            self._add(run_id, key, _Sum(connections, up, down, now, now))

    def flush(self, run_id: int | None = None) -> bool:
        """Write what is known of this run, or of all; false when the database does not answer, and then it is kept."""
        with self._writing:
            with self._lock:
                runs = sorted(self._runs) if run_id is None else [run_id]
            return all(self._write(each) for each in runs)

    def close(self) -> None:
        self._stopping.set()
        if not self.flush():
            log.warning("gateway.egress_unwritten", runs=len(self._runs))

    def _keep_flushing(self) -> None:
        while not self._stopping.wait(self._flush_seconds):
            self.flush()

    def _write(self, run_id: int) -> bool:
        with self._lock:
            sums = self._runs.pop(run_id, {})
        if self._store is None or not sums:
            return True
        try:
            self._store.add(run_id, self._uses(run_id, sums))
        except DatabaseUnavailable:
            with self._lock:
                for key, found in sums.items():
                    self._add(run_id, key, found)
            return False
        except Exception:  # evidence is no reason to keep a door from closing
            log.exception("gateway.egress_not_written", run=run_id, hosts=len(sums))
        return True

    def _uses(self, run_id: int, sums: Mapping[_Key, _Sum]) -> list[EgressUse]:
        now = self._clock()
        return [
            EgressUse(
                run_id,
                key.target.host,
                key.target.port,
                key.allowed,
                str(key.reason),
                each.connections,
                each.up,
                each.down,
                max(0.0, now - each.first),
                max(0.0, now - each.last),
            )
            for key, each in sums.items()
        ]

    def _add(self, run_id: int, key: _Key, more: _Sum) -> None:
        sums = self._runs.setdefault(run_id, {})
        if key not in sums and self._is_full(sums, key):
            key = _Key(ELSEWHERE, key.allowed, Reason.OTHER)
        if key not in sums and sum(map(len, self._runs.values())) >= MOST_WAITING:
            return
        known = sums.setdefault(key, _Sum(first=more.first))
        known.connections += more.connections
        known.up += more.up
        known.down += more.down
        known.first, known.last = min(known.first, more.first), max(known.last, more.last)

    def _is_full(self, sums: _Sums, key: _Key) -> bool:
        return sum(each.allowed == key.allowed for each in sums) >= MOST_HOSTS


def _shown(host: str) -> str:
    """Text that fits the column and a terminal."""
    return "".join(char if char.isascii() and char.isprintable() else "?" for char in host[:HOST_MAX]) or "?"
