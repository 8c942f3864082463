"""Name the states, endings and identities of a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pidispatch.domain.ask import NO_KIN, NOTHING_ASKED, Ask, Kinship, Terms
from pidispatch.domain.triggers import WaitAfter, WaitProfile


class State(StrEnum):
    QUEUED = "queued"
    DEFERRED = "deferred"
    HELD = "held"
    ADMITTED = "admitted"
    PREPARING = "preparing"
    RUNNING = "running"
    STOPPING = "stopping"
    FINISHING = "finishing"
    ENDED = "ended"


WAITING = (State.QUEUED, State.DEFERRED, State.HELD)
OCCUPYING = (State.ADMITTED, State.PREPARING, State.RUNNING, State.STOPPING, State.FINISHING)


class Outcome(StrEnum):
    COMPLETED = "completed"
    POLICY = "policy"
    FAILED = "failed"


class Result(StrEnum):
    NONE = "none"
    NO_OP = "no-op"
    DONE_UNVERIFIED = "done-unverified"
    DONE_VERIFIED = "done-verified"


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to act on one attempt of one run. Every write repeats `epoch`; a stale one changes nothing."""

    run_id: int
    public_id: str
    attempt: int
    epoch: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that somebody asked for. `folder` and `task` are bytes: paths and tasks fit no text column.

    With a `cause` it is deferred until `not_before`, else due at once. A forge's run has no folder and no host of its
    own. `one_shot` is the key of the trigger that it spends. One with `wait_for` is held until all of it is met; of
    those with one `wait_key` only one runs. `replica` is its number among `replicas`.
    """

    public_id: str
    folder: bytes | None
    folder_given: bytes | None
    task: bytes
    task_bytes: int
    event: bytes
    scope: str
    target: str
    pinned_host: str | None
    ask: Ask = NOTHING_ASKED
    mutex: str | None = None
    trigger_type: str = "cli"
    trigger_id: str | None = None
    trigger_index: int | None = None
    cause: str | None = None
    not_before: datetime | None = None
    kind: str = "local"
    title: bytes | None = None
    body: bytes | None = None
    subject: str | None = None
    one_shot: str | None = None
    wait_for: tuple[WaitAfter | WaitProfile, ...] = ()
    wait_key: str | None = None
    replica: int | None = None
    replicas: int | None = None
    kinship: Kinship = NO_KIN


@dataclass(frozen=True, slots=True)
class Waiting:
    """One run that may be admitted now on this host, as seen before any lock; `now` is Postgres's clock then.

    `one_shot` is the key of the trigger that it spends, and `spent_by` the other run that had spent it by then.
    `breaker` says that its trigger's breaker holds it back, or must be asked: as `ports.Breakers.held_back`.
    `granted`: it goes on where another stopped, and an operator gave it its cap. `replicas` is how many runs its event
    started, None for one. `mutex` is what it brought along: a folder's lock is looked up anew, a forge's run has none but
    this. `last_cost_cap` and `last_models` were in force for its last attempt; before the first they are as asked.
    """

    run_id: int
    public_id: str
    epoch: int
    folder: bytes
    folder_given: bytes
    scope: str
    attempt: int
    now: datetime
    ask: Ask = NOTHING_ASKED
    one_shot: str | None = None
    spent_by: str | None = None
    breaker: str | None = None
    replicas: int | None = None
    kind: str = "local"
    mutex: str | None = None
    granted: bool = False
    last_cost_cap: int | None = None
    last_models: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Occupant:
    """One run that holds a slot on this host, as the reconciler sees it. Times are aware UTC.

    `engine_id` is the engine that its box is made on, `place` that of the worker that admitted it, None when the worker
    has no row any more. `stop_asked_at`: since when it should stop, by a wish or by its deadline.
    """

    run_id: int
    public_id: str
    state: State
    attempt: int
    epoch: int
    container_id: str | None
    worker: str | None
    worker_beat: datetime | None
    state_since: datetime
    go_at: datetime | None
    deadline_at: datetime | None
    stop_reason: str | None
    engine_id: str | None = None
    place: str | None = None
    stop_asked_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """What an attempt needs to be prepared: the untrusted bytes, what was asked, and what is in force since its admission.

    `continues` is the id of the run that it goes on with. `mutex` is the lock of the folder that was admitted, None where it
    is a copy of the run's own; `owner` is that folder's user (None: an earlier version admitted it).
    """

    claim: Claim
    folder: bytes
    task: bytes
    task_bytes: int
    event: bytes
    target: str
    trigger_type: str
    ask: Ask
    terms: Terms
    chain_depth: int = 0
    continues: int | None = None
    mutex: str | None = None
    owner: int | None = None


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder that a run at work was admitted for: its path, its lock, its user (None: not written down)."""

    run_id: int
    public_id: str
    folder: bytes
    mutex: str
    owner: int | None


@dataclass(frozen=True, slots=True)
class AttemptFacts:
    """What the rows know of an attempt that is about to be judged.

    `refused`: why the gateway let it call no further, None when it called on after that or was never refused.
    `calls` counts the model calls of the whole run; `last_stop` is why the attempt's last answer ended. `report_said`:
    its report holds a message; `report_notes` is what the runner noticed.
    """

    claim: Claim
    state: State
    container_id: str | None
    container_name: str | None
    got_go: bool
    charged: int
    stop_reason: str | None
    last_status: int | None
    billed: int
    open_calls: int
    report_verified: bool
    report_reason: str | None
    silent_attempts: int
    unstarted_attempts: int
    refused: str | None = None
    calls: int = 0
    last_stop: str | None = None
    report_said: bool = False
    report_notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class BoxEnd:
    """How the engine says a box ended; all None when it is gone."""

    exit_code: int | None = None
    oom_killed: bool | None = None
    exited_at: datetime | None = None
