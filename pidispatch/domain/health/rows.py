"""Name what rows tell of hosts, slots, calls and schedules when their health is judged."""

from dataclasses import dataclass
from datetime import datetime

from pidispatch.domain.runs.run import State


@dataclass(frozen=True, slots=True)
class HostFacts:
    """One host. `worker_since` is when the longest-lived of its live workers started, None without one.

    `machines` is how many live under its name; `refused_at` when another was last refused, and `refused` says which.
    """

    name: str
    used: int
    worker_since: datetime | None
    heartbeat_at: datetime
    reconciled_at: datetime | None
    machines: int = 1
    refused_at: datetime | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Overdue:
    """A run that might have started on `host` since `since`: there was room, a worker, and nothing in its way."""

    public_id: str
    host: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Stopping:
    """A run that was asked to stop at `since`, or whose deadline that was, and which is not proven gone."""

    public_id: str
    host: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Passing:
    """A run that holds a slot of `host` in a state that passes by itself, since `since`."""

    public_id: str
    host: str
    state: State
    since: datetime


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A run of `host` whose box is on an engine that none of the host's live workers has."""

    public_id: str
    host: str


@dataclass(frozen=True, slots=True)
class OpenCall:
    """A model call whose row is still `held`, and the run it belongs to."""

    public_id: str
    state: State
    state_since: datetime
    opened_at: datetime


@dataclass(frozen=True, slots=True)
class Unattended:
    """A schedule that `host` plans, of which no worker was heard for so long that another had taken it over."""

    schedule: str
    host: str
