"""Print triggers as the file that means them."""

import json
from typing import Any

from pidispatch.domain.money import dollars
from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.text.jsonfile import Node, Number, write_json
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    Disarmed,
    IssueEvent,
    LabelEvent,
    Labels,
    Missed,
    On,
    PullRequestEvent,
    Trigger,
    Triggers,
    WhileRunning,
    Work,
)

Fields = dict[str, "str | int | tuple[str, ...] | dict[str, Node] | list[Node] | None"]


def write_triggers(triggers: Triggers) -> bytes:
    """The whole file anew, without what its author had around the entries: for a file that nobody edits by hand."""
    entries: list[Node] = [_entry(trigger) for trigger in triggers.entries]
    return write_json(Node({"triggers": Node(entries)}))


def entry_document(trigger: Trigger) -> dict[str, Any]:
    """The entry as JSON values, for programs; what was not written and holds a default is left out."""
    document: dict[str, Any] = json.loads(write_json(_entry(trigger)))
    return document


def _entry(trigger: Trigger) -> Node:
    scheduled = isinstance(trigger.on, Cron)
    return _object(
        {
            "id": None if scheduled else trigger.id,
            "on": _on(trigger),
            "run": _run(trigger.work),
        }
    )


def _on(trigger: Trigger) -> dict[str, Node]:
    ours: Fields = {
        "repo": trigger.repos,
        "while_running": None if trigger.while_running is WhileRunning.QUEUE else trigger.while_running.value,
        "disarmed": None if trigger.disarmed is None else mark_fields(trigger.disarmed),
    }
    cron_id: Fields = {"id": trigger.id if isinstance(trigger.on, Cron) else None}
    return _fields({"type": trigger.type.value, **cron_id, **_event(trigger.on), **ours})


def _event(on: On) -> Fields:
    match on:
        case Cron():
            missed = None if on.missed is Missed.ONCE else on.missed.value
            return {"pattern": on.pattern, "tz": on.tz, "missed": missed}
        case LabelEvent():
            return _labels(on.labels)
        case CommentEvent():
            return {"phrase": on.phrase}
        case PullRequestEvent():
            states: Fields = {"reviewState": on.review_states}
            return {"action": on.actions, **states, **_labels(on.labels), **_item(on)}
        case IssueEvent():
            return {"action": on.actions, **_item(on)}


def _labels(labels: Labels) -> Fields:
    return {"any": labels.any_of, "all": labels.all_of, "none": labels.none_of}


def _item(on: PullRequestEvent | IssueEvent) -> Fields:
    return {"number": on.number, "once": on.once or None}


def mark_fields(mark: Disarmed) -> dict[str, Node]:
    return _fields({"at": mark.at, "jobId": mark.job_id})


def _run(work: Work) -> dict[str, Node]:
    ask = work.ask
    return _fields(
        {
            "kind": work.kind,
            "folder": work.folder,
            "flow": ask.flow,
            "command": ask.command,
            "task": work.task,
            "instructions": work.instructions,
            "repository": work.repository,
            "provider": ask.provider,
            "model": ask.model,
            "models": ask.allowed_models,
            "maxTurns": ask.max_turns,
            "maxCostUsd": None if ask.cost_cap_micros is None else dollars(ask.cost_cap_micros),
            "image": ask.image,
            "packages": work.packages,
            "skillsDir": None if ask.skills_dir is None else ask.skills_dir.decode(errors="surrogateescape"),
            "resume": work.resume,
            "replicas": work.replicas,
            "secrets": {name: Node(reference) for name, reference in work.secrets} or None,
            "secretsProfile": work.secrets_profile,
            "backend": work.backend,
            "excludeTools": ask.excluded_tools,
            "waitFor": [_condition(each) for each in work.wait_for] or None,
            "github": work.github,
            "portfolio": work.portfolio,
            "priority": ask.priority or None,
            "egress": ask.egress_hosts,
        }
    )


def _condition(condition: WaitAfter | WaitProfile) -> Node:
    match condition:
        case WaitAfter():
            return _object({"after": condition.instant.isoformat()})
        case WaitProfile():
            return _object({"profile": condition.name})


def _object(fields: Fields) -> Node:
    return Node(_fields(fields))


def _fields(fields: Fields) -> dict[str, Node]:
    """The fields that hold something: None and nothing in a list are what was not written."""
    return {name: _node(value) for name, value in fields.items() if value is not None and value != ()}


def _node(value: "str | int | tuple[str, ...] | dict[str, Node] | list[Node]") -> Node:
    match value:
        case bool():
            return Node(value)
        case int():
            return Node(Number(str(value)))
        case tuple():
            return Node([Node(each) for each in value])
        case _:
            return Node(value)
