"""Name the limits and files that this version knows of and does not enforce."""

from collections.abc import Collection, Iterator, Mapping

# A limit that is set and quietly ignored spends money its owner believes is guarded. A feature that ships
# takes its names off this list and nothing else changes.
NOT_ENFORCED_YET = frozenset(
    {
        "PI_ALLOWED_MODELS",
        "PI_GLOBAL_PI_DIR",
        "PI_SESSIONS_DIR",
        "PI_TRIGGERS_FILE",
    }
)


def not_enforced(texts: Mapping[str, str], names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each of `names` that is set to something, with its problem."""
    for name in sorted(names):
        if texts.get(name):
            yield name, f"{name} is set, and this version does not enforce it yet; unset it"
