"""Say what an entry of the triggers file bounds its runs by, and where a worker cannot keep to that."""

from pidispatch.domain.money import dollars
from pidispatch.domain.triggers import Trigger, Triggers


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
