"""Name the limits and files that this version knows of and does not enforce."""

from collections.abc import Collection, Iterator, Mapping

# A limit that is set and quietly ignored spends money its owner believes is guarded. A feature that ships
# takes its names off this list and nothing else changes.
NOT_ENFORCED_YET = frozenset(
    {
        "PI_GLOBAL_PI_DIR",
        "PI_SESSIONS_DIR",
    }
)

# Checked, and then without effect: what they tune or turn on comes with a later version. None of them guards money.
NO_EFFECT_YET = frozenset(
    {
        "PI_CAPTURE_JOB_LOGS",
        "PI_DISPATCH_RUN_PER_HOUR",
        "PI_DISPATCH_RUN_ROOTS",
        "PI_GLOBAL_ALLOW_EXTENSIONS",
        "PI_LOGS_DIR",
        "PI_LOG_RETENTION_DAYS",
        "PI_SANDBOX_DIR",
        "PI_SANDBOX_IDLE_MINUTES",
        "PI_SANDBOX_PIN_DAYS",
        "PI_SANDBOX_RETENTION_HOURS",
        "PI_SCHEDULER_STALL_MAX",
        "PI_SESSIONS_ALLOW_GH_SOURCE",
        "PI_SESSIONS_TTL_DAYS",
    }
)


def without_effect(given: Collection[str]) -> tuple[str, ...]:
    """Those of the names that were given and change nothing yet."""
    return tuple(sorted(NO_EFFECT_YET.intersection(given)))


def not_enforced(texts: Mapping[str, str], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each of `names` that is set to something, with its problem."""
    for name in sorted(names):
        if texts.get(name):
            yield name, f"{name} is set, and this version does not enforce it yet; unset it"
