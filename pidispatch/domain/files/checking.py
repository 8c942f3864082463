"""Judge the text of any of the operator's files, alone and beside the files it speaks of."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import assert_never

from pidispatch.domain.egress.allowlist import Allowlist, parse_allowlist
from pidispatch.domain.files.summary import counts_of, in_words
from pidispatch.domain.limits.limitsfile import ScopedLimits, parse_scoped_limits
from pidispatch.domain.limits.pauses import PauseWindows
from pidispatch.domain.limits.pausesfile import parse_pause_windows
from pidispatch.domain.limits.projects import Projects, judge_together, parse_projects
from pidispatch.domain.limits.scopes import ScopeKind
from pidispatch.domain.limits.settings import Overlay, parse_overlay
from pidispatch.domain.limits.settingskeys import KEYS
from pidispatch.domain.providers.pricesfile import PriceFile, parse_prices
from pidispatch.domain.providers.providersfile import ProviderEntries, parse_providers
from pidispatch.domain.text.jsonfile import read_json
from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.trigger import Triggers
from pidispatch.errors import ConfigurationRefused


class FileKind(StrEnum):
    SCOPED_LIMITS = "scoped-limits"
    PROJECTS = "projects"
    PAUSE_WINDOWS = "pause-windows"
    SETTINGS = "settings"
    TRIGGERS = "triggers"
    PRICES = "prices"
    PROVIDERS = "providers"
    EGRESS = "egress-allowlist"


Value = ScopedLimits | Projects | PauseWindows | Overlay | Triggers | PriceFile | ProviderEntries | Allowlist

_BY_CONTENT = {
    "limits": FileKind.SCOPED_LIMITS,
    "projects": FileKind.PROJECTS,
    "windows": FileKind.PAUSE_WINDOWS,
    "triggers": FileKind.TRIGGERS,
    "models": FileKind.PRICES,
    "free": FileKind.PRICES,
    "plan": FileKind.PRICES,
    "providers": FileKind.PROVIDERS,
}


@dataclass(frozen=True, slots=True)
class Checked:
    """What is to be said of one file; `value` is what it means, None when it was refused."""

    file: str
    kind: FileKind | None
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    value: Value | None = None

    @property
    def summary(self) -> str:
        return "refused" if self.value is None else in_words(counts_of(self.value))


def check(file: str, content: bytes, kind: FileKind | None = None) -> Checked:
    """Judge one file; without `kind`, by its name, else by what is in it."""
    try:
        kind = kind or kind_of(file, content)
        if kind is None:
            names = ", ".join(FileKind)
            return Checked(file, None, (f"{file}: cannot tell what it is; say so with --as ({names})",))
        value = _parse(kind, content, file)
    except ConfigurationRefused as error:
        return Checked(file, kind, error.problems)
    return Checked(file, kind, notes=value.notes + _own_notes(value, file), value=value)


def kind_of(file: str, content: bytes) -> FileKind | None:
    """Raises ConfigurationRefused when the name does not tell, and the content is no JSON."""
    name = file.rsplit("/", 1)[-1].lower()
    for kind in FileKind:
        if kind in name:
            return kind
    keys = read_json(content, file).value
    if not isinstance(keys, dict):
        return None
    found = {kind for key, kind in _BY_CONTENT.items() if key in keys}
    if len(found) == 1:
        return found.pop()
    return FileKind.SETTINGS if not found and keys.keys() & KEYS.keys() else None


def _parse(kind: FileKind, content: bytes, file: str) -> Value:
    match kind:
        case FileKind.SCOPED_LIMITS:
            return parse_scoped_limits(content, file)
        case FileKind.PROJECTS:
            return parse_projects(content, file)
        case FileKind.PAUSE_WINDOWS:
            return parse_pause_windows(content, file)
        case FileKind.SETTINGS:
            return parse_overlay(content, file)
        case FileKind.TRIGGERS:
            return parse_triggers(content, file)
        case FileKind.PRICES:
            return parse_prices(content, file)
        case FileKind.PROVIDERS:
            return parse_providers(content, file)
        case FileKind.EGRESS:
            return parse_allowlist(content, file)
        case never:
            assert_never(never)


def _own_notes(value: Value, file: str) -> tuple[str, ...]:
    """What only the rest of the configuration can decide."""
    if not isinstance(value, Overlay) or value.max_cost_micros is not None:
        return ()
    windows = (value.daily_cost_micros, value.weekly_cost_micros, value.monthly_cost_micros)
    if all(each is None for each in windows):
        return ()
    return (f"{file}: a limit of dollars is set without maxCostUsd, so PI_MAX_COST_USD must be set",)


def beside_each_other(checked: Sequence[Checked]) -> tuple[Checked, ...]:
    """Limits with the projects of the same call: each row's project must be among them."""
    projects = [each.value for each in checked if isinstance(each.value, Projects)]
    all_of_them = Projects(tuple(project for each in projects for project in each.projects))
    return tuple(_beside(each, all_of_them if projects else None) for each in checked)


def _beside(checked: Checked, projects: Projects | None) -> Checked:
    limits = checked.value
    if not isinstance(limits, ScopedLimits):
        return checked
    if projects is None:
        if not any(row.kind is ScopeKind.PROJECT for row in limits.rows):
            return checked
        note = f"{checked.file}: names projects; check it together with the projects file"
        return replace(checked, notes=(*checked.notes, note))
    problems = judge_together(limits, projects, checked.file)
    return replace(checked, problems=problems, value=None) if problems else checked
