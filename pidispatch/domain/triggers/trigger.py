"""What `triggers.json` means: each entry says what starts a run, and what that run does."""

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

from pidispatch.domain.money import dollars
from pidispatch.domain.runs.ask import NOTHING_ASKED, Ask, WaitAfter, WaitProfile

SHORT = 12  # characters of an identity that is a hash


class TriggerType(StrEnum):
    CRON = "cron"
    LABEL = "label"
    COMMENT = "comment"
    PULL_REQUEST = "pull_request"
    ISSUE = "issue"


class Missed(StrEnum):
    """What becomes of instants that passed while nothing could start them."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class WhileRunning(StrEnum):
    """What a second event does while a run of the same subject is there."""

    QUEUE = "queue"
    SKIP = "skip"
    SUPERSEDE = "supersede"
    PARALLEL = "parallel"


@dataclass(frozen=True, slots=True)
class Cron:
    """`tz` None is the zone of the host."""

    pattern: str
    tz: str | None = None
    missed: Missed = Missed.ONCE


@dataclass(frozen=True, slots=True)
class Labels:
    """Exact names: one of `any_of` (where there are some), each of `all_of`, none of `none_of`."""

    any_of: tuple[str, ...] = ()
    all_of: tuple[str, ...] = ()
    none_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LabelEvent:
    labels: Labels


@dataclass(frozen=True, slots=True)
class CommentEvent:
    phrase: str


@dataclass(frozen=True, slots=True)
class PullRequestEvent:
    """A close-only entry may name one pull request, and fire once for it."""

    actions: tuple[str, ...]
    labels: Labels = Labels()
    review_states: tuple[str, ...] = ()
    number: int | None = None
    once: bool = False


@dataclass(frozen=True, slots=True)
class IssueEvent:
    actions: tuple[str, ...]
    number: int | None = None
    once: bool = False


On = Cron | LabelEvent | CommentEvent | PullRequestEvent | IssueEvent


@dataclass(frozen=True, slots=True)
class Work:
    """The `run` of an entry. It asks for exactly one of a flow and a command; None is what was not written.

    `kind` says where the run works: `local`, a folder of this host, or a forge's name.
    """

    kind: str
    ask: Ask = NOTHING_ASKED
    folder: str | None = None
    task: str | None = None
    instructions: str | None = None
    packages: bool | None = None
    resume: bool | None = None
    secrets: tuple[tuple[str, str], ...] = ()
    secrets_profile: str | None = None
    repository: str | None = None
    replicas: int | None = None
    backend: str | None = None
    wait_for: tuple[WaitAfter | WaitProfile, ...] = ()
    github: bool | None = None
    portfolio: bool | None = None

    @property
    def prompt(self) -> str:
        """What the agent of a schedule is told: the command's line, or the task."""
        return f"/{self.ask.command}" if self.ask.command is not None else self.task or ""


@dataclass(frozen=True, slots=True)
class Disarmed:
    """The mark of a one-shot that was spent; one written by hand names no job."""

    at: str
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class Trigger:
    """One entry of the file. `index` and `line` are for display: an entry may move."""

    index: int
    line: int = field(compare=False)
    on: On
    work: Work
    id: str | None = None
    repos: tuple[str, ...] = ()
    while_running: WhileRunning = WhileRunning.QUEUE
    disarmed: Disarmed | None = None

    @property
    def type(self) -> TriggerType:
        match self.on:
            case Cron():
                return TriggerType.CRON
            case LabelEvent():
                return TriggerType.LABEL
            case CommentEvent():
                return TriggerType.COMMENT
            case PullRequestEvent():
                return TriggerType.PULL_REQUEST
            case IssueEvent():
                return TriggerType.ISSUE

    @property
    def shown(self) -> str:
        """The id as people see it: of an entry without one, the beginning of its identity."""
        return self.identity if self.id is not None else self.identity[:SHORT]

    @property
    def identity(self) -> str:
        """What stays the same when the entry moves: its id, else a hash of kind, type, repositories, number, actions, lane."""
        if self.id is not None:
            return self.id
        number = getattr(self.on, "number", None)
        actions = ",".join(getattr(self.on, "actions", ()))
        parts = (
            self.work.kind,
            self.type,
            ",".join(self.repos),
            str(number or ""),
            actions,
            self.work.ask.lane,
        )
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Triggers:
    """The entries in their order, and what is only worth knowing about the file."""

    entries: tuple[Trigger, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    def by_id(self, identity: str) -> Trigger | None:
        return next((each for each in self.entries if each.identity == identity), None)


def path_bytes(path: str) -> bytes:
    """The path as the file system has it; one that no file can have becomes one that is not there."""
    try:
        return path.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return b""


def bound_problems(triggers: Triggers, file: str, *, max_cost_micros: int | None) -> list[str]:
    """What refuses the file beside its grammar, one sentence for each entry; `max_cost_micros` is the deployment's cap."""
    found = ((each, _problem(each, max_cost_micros)) for each in triggers.entries)
    return [
        f"{file}:{each.line}: {_called(each)}: {problem}" for each, problem in found if problem is not None
    ]


def _problem(trigger: Trigger, most: int | None) -> str | None:
    work = trigger.work
    if most is not None and work.ask.cost_cap_micros is not None and work.ask.cost_cap_micros > most:
        return f"run.maxCostUsd must not be above PI_MAX_COST_USD, which is {dollars(most)}: an entry can only lower it"
    return None


def _called(trigger: Trigger) -> str:
    name = "" if trigger.id is None else f' (id "{trigger.id}")'
    return f"triggers[{trigger.index}]{name}"
