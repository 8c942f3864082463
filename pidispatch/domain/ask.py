"""Hold what was asked of a run, what is in force for it, and which runs it comes from."""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Ask:
    """What somebody asks of a run. None is what was left open: as configured when it starts, or without this bound.

    `command` is a command line without its slash, `flow` the skill to use. `allowed_models` are provider/model,
    `excluded_tools` tools of pi, `egress_hosts` entries as of the allowlist. `skills_dir` is a path of the host that runs
    it, `cost_cap_micros` is micro-dollars; a cap can only lower what is configured.

    Whatever is made of a run takes the whole value along: `replace(old.ask, ...)` names what differs. Each field has its
    column in `runs`, or `run_payloads`, where untrusted bytes are.
    """

    flow: str | None = None
    command: str | None = None
    provider: str | None = None
    model: str | None = None
    image: str | None = None
    priority: int = 0
    max_turns: int | None = None
    max_tokens: int | None = None
    cost_cap_micros: int | None = None
    allowed_models: tuple[str, ...] | None = None
    excluded_tools: tuple[str, ...] | None = None
    egress_hosts: tuple[str, ...] | None = None
    skills_dir: bytes | None = None

    @property
    def lane(self) -> str:
        """What the run does, as one word: a subject has one run at a time in each lane."""
        return f"cmd:{self.command}" if self.command is not None else self.flow or ""

    def of_its_own(self) -> tuple[tuple[str, object], ...]:
        """What is asked of this very run, so that no run that was asked for otherwise can answer for it."""
        asked = ((field.name, getattr(self, field.name)) for field in fields(self))
        return tuple((name, value) for name, value in asked if name not in _SHARED and value is not None)


_SHARED = {"flow", "command", "priority"}  # the lane, and how urgent it is
NOTHING_ASKED = Ask()


@dataclass(frozen=True, slots=True)
class Terms:
    """What is in force for a run from its admission on: as asked, where the installation allows that. Units as in `Ask`."""

    provider: str
    model: str
    image: str
    max_turns: int
    max_tokens: int | None = None
    cost_cap_micros: int | None = None
    allowed_models: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Kinship:
    """The runs that a run comes from, by number: the one that asked for it, the first of its chain, the one that it repeats,
    the one whose work it goes on with.
    """

    parent_id: int | None = None
    root_id: int | None = None
    chain_depth: int = 0
    requeue_of: int | None = None
    continues: int | None = None


NO_KIN = Kinship()
