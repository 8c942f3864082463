"""Say in one breath what is asked of a run and what else is true of it."""

from dataclasses import fields, replace
from typing import Any

from pidispatch.domain.limits.admission import Ready
from pidispatch.domain.runs.ask import Ask, Terms
from pidispatch.domain.runs.run import NewRun
from pidispatch.domain.triggers.trigger import Work


def asking(run: NewRun, **more: Any) -> NewRun:
    """The run with these fields, those of its ask among them."""
    return _nested(run, "ask", Ask, more)


def finding(ready: Ready, **more: Any) -> Ready:
    """What the checks found, with these fields, those of what is in force among them."""
    return _nested(ready, "terms", Terms, more)


def work_of(kind: str, **more: Any) -> Work:
    """The `run` of an entry with these fields, those of its ask among them."""
    return _nested(Work(kind), "ask", Ask, more)


def _nested(value: Any, name: str, kind: Any, more: dict[str, Any]) -> Any:
    inner = {field.name: more.pop(field.name) for field in fields(kind) if field.name in more}
    return replace(value, **{name: replace(getattr(value, name), **inner)}, **more)
