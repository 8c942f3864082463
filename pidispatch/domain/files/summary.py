"""Count what one of the operator's files holds, for its line in the log and the answer of `check`."""

from collections.abc import Iterable, Mapping

from pidispatch.domain.egress.allowlist import Allowlist
from pidispatch.domain.limits.limitsfile import ScopedLimits, ScopeLimit
from pidispatch.domain.limits.pauses import PauseWindows
from pidispatch.domain.limits.projects import Boundaries, Projects
from pidispatch.domain.limits.settings import Overlay
from pidispatch.domain.limits.settingskeys import KEYS
from pidispatch.domain.providers.pricesfile import PriceFile
from pidispatch.domain.providers.providersfile import ProviderEntries
from pidispatch.domain.triggers.trigger import Cron, Triggers

_BOUNDS = (
    "day",
    "week",
    "month",
    "concurrent",
    "day_micros",
    "week_micros",
    "month_micros",
    "memory_mib",
    "cpu_hundredths",
    "host_share",
    "min_jobs",
)


def counts_of(value: object) -> Mapping[str, int]:  # noqa: PLR0911 - one for each kind of file
    """How much of what is in it; nothing for what is no value of an operator's file."""
    match value:
        case ScopedLimits():
            return {"version": value.version, "rows": len(value.rows), "caps": _caps(value.rows)}
        case Projects():
            members = sum(len(each.members) for each in value.projects)
            return {"projects": len(value.projects), "members": members}
        case Boundaries():
            return {**counts_of(value.limits), **counts_of(value.projects)}
        case PauseWindows():
            return {"windows": len(value.windows)}
        case Triggers():
            schedules = sum(isinstance(each.on, Cron) for each in value.entries)
            return {"triggers": len(value.entries), "schedules": schedules}
        case PriceFile():
            free = len(value.covered) - len(value.plans)
            return {"prices": len(value.models), "free": free, "in_a_plan": len(value.plans)}
        case ProviderEntries():
            return {"providers": len(value.entries)}
        case Allowlist():
            return {"hosts": len(value.entries)}
        case Overlay():
            return {"keys": sum(getattr(value, key.attribute) is not None for key in KEYS.values())}
        case _:
            return {}


def _caps(rows: Iterable[ScopeLimit]) -> int:
    return sum(getattr(row, name) is not None for row in rows for name in _BOUNDS)


def in_words(counts: Mapping[str, int]) -> str:
    """`version 3, 1 row, 2 caps`."""
    return ", ".join(_counted(name, number) for name, number in counts.items())


def _counted(name: str, number: int) -> str:
    if name == "version":
        return f"version {number}"
    word = name.replace("_", " ")
    return f"{number} {word.removesuffix('s') if number == 1 else word}"
