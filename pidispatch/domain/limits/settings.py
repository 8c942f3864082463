"""Parse `settings.json`: what the operator changed while pidispatch runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from pidispatch.domain.limits.settingskeys import KEYS, accepted, key_meant
from pidispatch.domain.text.fields import Report, root_entry
from pidispatch.domain.text.jsonfile import Node, read_json, shown


@dataclass(frozen=True, slots=True)
class Overlay:
    """The keys that are set, None for the others. Amounts are micro-dollars.

    `unknown` are the keys that were dropped, `notes` the same as lines for the log.
    """

    provider: str | None = None
    model: str | None = None
    max_turns: int | None = None
    max_tokens: int | None = None
    daily_cap: int | None = None
    weekly_cap: int | None = None
    monthly_cap: int | None = None
    soft_hold_pct: int | None = None
    daily_token_cap: int | None = None
    concurrency: int | None = None
    max_cost_micros: int | None = None
    daily_cost_micros: int | None = None
    weekly_cost_micros: int | None = None
    monthly_cost_micros: int | None = None
    secret_profiles: Mapping[str, str] | None = field(default=None, repr=False)
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Effective:
    """The values in force before a run's own; without an overlay those of environment and defaults.

    None is a limit that is off. A run may only narrow `max_cost_micros`.
    """

    provider: str
    model: str
    max_turns: int
    daily_cap: int
    concurrency: int
    max_tokens: int | None = None
    weekly_cap: int | None = None
    monthly_cap: int | None = None
    soft_hold_pct: int | None = None
    daily_token_cap: int | None = None
    max_cost_micros: int | None = None
    daily_cost_micros: int | None = None
    weekly_cost_micros: int | None = None
    monthly_cost_micros: int | None = None
    secret_profiles: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)


def parse_overlay(content: bytes | None, file: str) -> Overlay:
    """The file's keys; a missing file (None) sets none. Raises ConfigurationRefused: one bad key refuses them all."""
    if content is None:
        return Overlay()
    report = Report(file)
    root = root_entry(read_json(content, file), report, "an object of settings")
    values: dict[str, Any] = {}
    for name, node in root.fields.items():
        _read(name, node, values, report)
    report.close()
    unknown = tuple(name for name in root.fields if name not in KEYS)
    return Overlay(**values, unknown=unknown, notes=tuple(report.notes))


def _read(name: str, node: Node, values: dict[str, Any], report: Report) -> None:
    key = KEYS.get(name)
    if key is not None:
        values[key.attribute] = accepted(key, node)
        if values[key.attribute] is None:
            report.refuse(node.line, f"{name} must be {key.wanted}; to switch it off, leave it out")
        return
    meant = key_meant(name)
    if meant is not None:
        report.refuse(node.line, f"{shown(name)} is not a key; {meant} is, and it must be spelled like that")
    else:
        report.note(node.line, f"{shown(name)} is unknown and ignored")


def merge(overlay: Overlay, base: Effective) -> Effective | tuple[str, ...]:
    """The overlay over environment and defaults, or the problems of what comes out."""
    own = {each.name: getattr(overlay, each.name) for each in fields(Effective)}
    under = {each.name: getattr(base, each.name) for each in fields(Effective)}
    merged = Effective(**(under | {name: value for name, value in own.items() if value is not None}))
    return money_problems(merged) or merged


def money_problems(merged: Effective) -> tuple[str, ...]:
    """A window of dollars holds back each run's own cap, so without such a cap it would hold back nothing."""
    if merged.max_cost_micros is not None:
        return ()
    windows = {
        "dailyCostUsd": merged.daily_cost_micros,
        "weeklyCostUsd": merged.weekly_cost_micros,
        "monthlyCostUsd": merged.monthly_cost_micros,
    }
    return tuple(
        f"{name} is set and maxCostUsd is not: a limit of dollars needs the cap of one run as well"
        for name, value in windows.items()
        if value is not None
    )
