"""Tell programs what an event would start."""

from typing import TYPE_CHECKING

from pidispatch.domain.triggers.event import problem_of
from pidispatch.domain.triggers.grammar.printing import entry_document
from pidispatch.domain.triggers.verdicts import Match
from pidispatch.entrypoints.cli.verdictwording import gate_name, problem_in_words, reason_in_words

if TYPE_CHECKING:
    from pidispatch.app.rehearsal import Rehearsal, Rows, WouldStart
    from pidispatch.domain.triggers.event import Event
    from pidispatch.domain.triggers.verdicts import Verdict


def document_of(found: "Rehearsal") -> dict[str, object]:
    problem = problem_of(found.event)
    return {
        "file": found.file,
        "event_problem": None if problem is None else problem_in_words(problem),
        "dropped": found.dropped,
        "entries": [_entry(each, found.event) for each in found.verdicts],
        "would_start": None if found.would is None else _would_start(found.would),
        "without_rows": found.without_rows,
    }


def _entry(verdict: "Verdict", event: "Event") -> dict[str, object]:
    stopped = None if isinstance(verdict, Match) else verdict
    matched = verdict if isinstance(verdict, Match) else None
    return {
        "id": verdict.trigger.identity,
        "index": verdict.trigger.index,
        "line": verdict.trigger.line,
        "matches": matched is not None,
        "matched": None if matched is None else matched.type,
        "by": None if matched is None else matched.by,
        "gate": None if stopped is None else gate_name(stopped),
        "reason": None if stopped is None else stopped.reason,
        "in_words": None if stopped is None else reason_in_words(stopped, event),
    }


def _would_start(would: "WouldStart") -> dict[str, object]:
    match, trigger = would.match, would.match.trigger
    subject = match.subject()
    return {
        "id": trigger.identity,
        "kind": trigger.work.kind,
        "flow": match.flow,
        "command": match.command,
        "not_enforced": list(would.not_enforced),
        "target": would.target,
        "subject": {
            "key": subject.key,
            "scope": subject.scope,
            "item": subject.item,
            "lane": subject.lane,
        },
        "priority": trigger.work.ask.priority,
        "replicas": trigger.work.replicas,
        "one_shot": match.one_shot,
        "while_running": trigger.while_running,
        "wait_for": entry_document(trigger)["run"].get("waitFor", []),
        "rows": None if would.rows is None else _rows(would.rows),
    }


def _rows(rows: "Rows") -> dict[str, object]:
    """`spent_by` is the run that used the one-shot up; `would_be` what becomes of the event, and `run` because of whom."""
    at = rows.step.at
    return {
        "spent_by": None if rows.spent is None else rows.spent.run,
        "spent_at": None if rows.spent is None else rows.spent.at,
        "would_be": rows.step.kind,
        "run": None if at is None else at.public_id,
        "breaker": rows.breaker,
    }
