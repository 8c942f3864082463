"""`status`: what is true of the queue now."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.output import AsJson, cell, out, plain, print_facts, print_json, print_table
from pidispatch.entrypoints.cli.wording import amount, breaker_in_words, count_of, window_name

if TYPE_CHECKING:
    from pidispatch.app.health import Health
    from pidispatch.app.verbs.queue import HostRecord, QueueStatus

Check = Annotated[bool, typer.Option("--check", help="End with exit code 1 when something is red.")]


def status(as_json: AsJson = False, check: Check = False) -> None:
    from pidispatch.app.health import QUICK, busy_providers, document, standing_and_health
    from pidispatch.app.installation import Installation

    with Installation.here(engine_seconds=int(QUICK)) as here:
        found, health = standing_and_health(here)
        busy = busy_providers(here, seconds=QUICK)
    if as_json:
        print_json(_document(found) | {"busy_providers": dict(busy), "health": document(health)})
    else:
        _print_status(found, health, busy)
    if check and not health.ok:
        raise typer.Exit(1)


def _document(found: "QueueStatus") -> dict[str, object]:
    return {
        "at": found.at,
        "states": dict(found.states),
        "causes": dict(found.causes),
        "ended_today": dict(found.ended_today),
        "paused_since": found.paused_since,
        "stopped_since": found.stopped_since,
        "paused": found.paused,
        "workers": found.workers,
        "hosts": found.hosts,
        "held_calls": found.held_calls,
        "windows": found.windows,
        "breakers": found.breakers,
        "file_problems": list(found.file_problems),
    }


def _print_status(found: "QueueStatus", health: "Health", busy: Mapping[str, datetime]) -> None:
    workers = len(found.workers)
    print_facts(
        (
            ("queue", _queue(found)),
            ("runs", _counts(found.states) or "none waiting, none running"),
            ("why waiting", _counts(found.causes)),
            ("ended today", _counts(found.ended_today) or "none"),
            ("workers", str(workers) if workers else "none: start `pidispatch up` or `pidispatch worker`"),
            ("open model calls", found.held_calls),
            ("health", "ok" if health.ok else f"{len(health.red)} red"),
            *(("unreachable", _silence(host)) for host in found.hosts if host.unreachable),
        )
    )
    for fault in health.red:
        out.print(plain(f"red: {fault.word}: {fault.sentence}; {fault.way_out}"))
    for name, until in busy.items():
        out.print(plain(f"provider {name} busy until {cell(until)}: its calls are held, its runs wait"))
    for problem in found.file_problems:
        out.print(plain(f"not in force: {problem}"))
    for pause in found.paused:
        if pause.scope != "*":
            out.print(plain(f"paused: {pause.scope} since {cell(pause.paused_at)}{_calls(pause.stopped_at)}"))
    for breaker in found.breakers:
        out.print(plain(breaker_in_words(breaker)))
    if found.hosts:
        out.print()
        print_table(
            ("host", "running", "room for", "workers", "last compared with Docker"),
            [(host.name, host.used, host.capacity, host.workers, host.reconciled_at) for host in found.hosts],
        )
    if found.windows:
        out.print()
        print_table(
            ("window", "from", "used", "cap", "state"),
            [
                (
                    window_name(window.scope, window.unit, window.period),
                    window.starts_on,
                    amount(window.unit, window.used),
                    amount(window.unit, window.cap),
                    window.state,
                )
                for window in found.windows
            ],
        )


def _queue(found: "QueueStatus") -> str:
    if found.paused_since is None:
        return "open"
    return f"paused since {cell(found.paused_since)}{_calls(found.stopped_since)}"


def _calls(stopped_at: datetime | None) -> str:
    return "" if stopped_at is None else f", model calls are refused since {cell(stopped_at)}"


def _silence(host: "HostRecord") -> str:
    runs = count_of(host.unreachable, "run")
    return f"{runs} on {host.name}, silent since {cell(host.heartbeat_at)}: `pidispatch forget-host` gives them up"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)
