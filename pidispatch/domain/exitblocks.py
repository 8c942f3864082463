"""Hold the blocks of an exit line: closed field sets, in which `None` is never the same as zero."""

from dataclasses import dataclass

from pidispatch.domain.words import Use, words_of

SESSION_REASONS: frozenset[str] = frozenset(words_of(Use.SESSION))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Counts of one run. `total` is billed tokens, cache included; `cost` dollars; the cap micro-dollars."""

    total: int
    input: int | None = None
    output: int | None = None
    cost: float | None = None
    metered: bool | None = None
    root_total: int | None = None
    other_total: int | None = None
    loose_total: int | None = None
    sessions: int | None = None
    calls: int | None = None
    unresolved: int | None = None
    unpriced: int | None = None
    child_total: int | None = None
    child_processes: int | None = None
    unmetered_children: int | None = None
    cost_cap_micros: int | None = None
    cost_refused: int | None = None
    bound_exceeded: int | None = None
    long_context: int | None = None
    cost_unjudged: int | None = None
    cost_unanswered: int | None = None
    model_refused: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """What one model did in one run, names in lower case. Here alone an absent figure is zero."""

    provider: str
    model: str
    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0
    reasoning: int = 0
    total: int = 0
    cost: float = 0.0
    unpriced: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """The meter's rows: up to eight named models and one `other/other` that folds the rest."""

    v: int
    pi_ai: str | None
    truncated: int | None
    models: tuple[UsageRow, ...]


@dataclass(frozen=True, slots=True)
class Context:
    """Tokens in the model's context at the end, and how many fit."""

    tokens: int
    window: int


@dataclass(frozen=True, slots=True)
class Session:
    """Whether a stored conversation was resumed; `reason` is one of SESSION_REASONS."""

    resumed: bool
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the container's own cgroup said at the end, in bytes, microseconds and counts."""

    mem_peak: int | None = None
    oom_kills: int | None = None
    mem_some_usec: int | None = None
    mem_full_usec: int | None = None
    cpu_usec: int | None = None
    throttled_usec: int | None = None
    throttled: int | None = None
    pids_peak: int | None = None
