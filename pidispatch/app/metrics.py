"""Name and fill the metrics: counts of rows, and what is red."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pidispatch import __version__
from pidispatch.domain.disks import FileSystem
from pidispatch.domain.health import FaultWord, Health
from pidispatch.domain.limits import Unit
from pidispatch.monitoring.metrics import Gauge
from pidispatch.store.measures import Today
from pidispatch.store.standing import HostRecord, QueueStatus, WindowRecord

MICROS = 1_000_000
WINDOW = ("scope", "period")


def health_gauges(health: Health) -> Iterable[Gauge]:
    """Every fault has its series, so that an alert on one that never happened is no error."""
    red = {fault.word for fault in health.red}
    yield Gauge("pidispatch_build_info", "The version that answers", ("version",), {(__version__,): 1})
    yield _single("pidispatch_healthy", "1 when nothing is red", float(health.ok))
    yield Gauge(
        "pidispatch_health_red",
        "1 for each fault that is red now",
        ("fault",),
        {(str(word),): float(word in red) for word in FaultWord},
    )


def disk_gauges(host: str, disks: Sequence[FileSystem]) -> Sequence[Gauge]:
    """A series for each place of the host; places that share a file system tell the same."""
    labels = ("host", "place")
    free: dict[tuple[str, ...], float] = {(host, place): disk.free for disk in disks for place in disk.places}
    size: dict[tuple[str, ...], float] = {(host, place): disk.size for disk in disks for place in disk.places}
    return (
        Gauge("pidispatch_disk_free_bytes", "What may still be written where a place lies", labels, free),
        Gauge("pidispatch_disk_size_bytes", "How large the file system of a place is", labels, size),
    )


def provider_gauge(host: str, busy: Mapping[str, datetime], now: datetime) -> Gauge:
    return Gauge(
        "pidispatch_provider_busy_seconds",
        "How long calls to a provider's model (empty: any) are still held back; no series while they are not",
        ("host", "provider", "model"),
        {
            (host, *_provider_and_model(name)): max((until - now).total_seconds(), 0.0)
            for name, until in busy.items()
        },
    )


def _provider_and_model(name: str) -> tuple[str, str]:
    provider, _, model = name.partition("/")
    return provider, model


def queue_gauges(queue: QueueStatus, today: Today) -> Iterable[Gauge]:
    yield Gauge("pidispatch_runs", "Runs that have not ended, by state", ("state",), _by_word(queue.states))
    yield Gauge(
        "pidispatch_runs_waiting", "Runs that wait, by what they wait for", ("cause",), _by_word(queue.causes)
    )
    yield _single(
        "pidispatch_queue_oldest_age_seconds",
        "How long the oldest queued run has waited",
        today.oldest_queued_seconds,
    )
    yield Gauge(
        "pidispatch_runs_ended_today",
        "Runs that ended this UTC day; falls to 0 at midnight",
        ("outcome", "reason"),
        {labels: float(runs) for labels, runs in today.ended.items()},
    )
    yield Gauge(
        "pidispatch_tokens_settled_today",
        "Tokens of runs that ended this UTC day; falls to 0 at midnight",
        ("kind",),
        _by_word(today.tokens),
    )
    yield _single("pidispatch_calls_held", "Model calls that are open", queue.held_calls)
    yield _single("pidispatch_scopes_paused", "Scopes that an operator holds back", len(queue.paused))
    yield _single(
        "pidispatch_breakers_open", "Triggers that are held back after failures", len(queue.breakers)
    )
    yield Gauge(
        "pidispatch_breaker_failures",
        "Failures in a row of each trigger that is held back",
        ("trigger", "reason"),
        {(each.trigger_id, each.reason): each.failures for each in queue.breakers},
    )
    yield from _hosts(queue.hosts, queue.at)
    for unit, word in ((Unit.RUNS, "runs"), (Unit.TOKENS, "tokens"), (Unit.MICROS, "dollars")):
        yield from _windows(unit, word, queue.windows)


def _hosts(hosts: Sequence[HostRecord], now: datetime) -> Iterable[Gauge]:
    yield Gauge(
        "pidispatch_workers",
        "Worker processes that live",
        ("host",),
        {(host.name,): host.workers for host in hosts},
    )
    yield Gauge(
        "pidispatch_slots_used",
        "Runs that hold a slot",
        ("host",),
        {(host.name,): host.used for host in hosts},
    )
    yield Gauge(
        "pidispatch_slots", "Slots there are", ("host",), {(host.name,): host.capacity for host in hosts}
    )
    yield Gauge(
        "pidispatch_reconcile_age_seconds",
        "Since rows and containers of a host were last compared",
        ("host",),
        {
            (host.name,): max((now - host.reconciled_at).total_seconds(), 0.0)
            for host in hosts
            if host.reconciled_at is not None
        },
    )


def _windows(unit: Unit, word: str, windows: Sequence[WindowRecord]) -> Iterable[Gauge]:
    mine = [window for window in windows if window.unit == unit]
    share = MICROS if unit is Unit.MICROS else 1
    yield Gauge(
        f"pidispatch_window_used_{word}",
        f"{word.capitalize()} counted in the window that today falls in, held ones too",
        WINDOW,
        {(window.scope, window.period): window.used / share for window in mine},
    )
    yield Gauge(
        f"pidispatch_window_cap_{word}",
        f"{word.capitalize()} that the window may hold",
        WINDOW,
        {(window.scope, window.period): window.cap / share for window in mine},
    )


def _single(name: str, documentation: str, value: float) -> Gauge:
    return Gauge(name, documentation, (), {(): value})


def _by_word(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    return {(word,): float(count) for word, count in counts.items()}
