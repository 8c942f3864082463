"""`triggers test`: what an event would start."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from pidispatch.domain import words
from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.triggers.arrival import ArrivalStep, Became
from pidispatch.domain.triggers.conditions import text_of
from pidispatch.domain.triggers.event import Event, Item, problem_of
from pidispatch.domain.triggers.grammar.printing import entry_document
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    IssueEvent,
    LabelEvent,
    PullRequestEvent,
    Trigger,
)
from pidispatch.domain.triggers.verdicts import Match, Stopped
from pidispatch.domain.words import Use, meaning
from pidispatch.entrypoints.cli.output import (
    AsJson,
    cell,
    err,
    out,
    plain,
    print_facts,
    print_json,
    print_table,
)
from pidispatch.entrypoints.cli.triggerwording import does_in_words, labels_in_words
from pidispatch.entrypoints.cli.wording import breaker_in_words

if TYPE_CHECKING:
    from pidispatch.app.rehearsal import Rehearsal, Rows, WouldStart
    from pidispatch.domain.triggers.event import Event
    from pidispatch.domain.triggers.verdicts import Verdict

LONGEST = 200  # characters of an event's word on one line


def problem_in_words(problem: str) -> str:
    """Why an event is dropped whatever the entries say."""
    return meaning(problem, Use.EVENT) or problem


def gate_name(stopped: Stopped) -> str:
    return stopped.gate.name.lower()


def reason_in_words(stopped: Stopped, event: Event) -> str:
    """One sentence without its end."""
    said = _WITH_NAMES.get(stopped.reason)
    return (
        (meaning(stopped.reason, Use.EVENT) or stopped.reason)
        if said is None
        else said(stopped.trigger, event)
    )


def _other_forge(trigger: Trigger, event: Event) -> str:
    if isinstance(trigger.on, Cron):
        return "a schedule: no event starts it"
    return f"it waits for {trigger.work.kind}, the event is of {event.forge.name}"


def _disarmed(trigger: Trigger, _: Event) -> str:
    mark = trigger.disarmed
    if mark is None:
        return "it was used up"
    by = "by hand" if mark.job_id is None else f"by {mark.job_id}"
    return f"it was used up at {mark.at}, as marked {by}"


def _other_event(trigger: Trigger, event: Event) -> str:
    match trigger.on:
        case LabelEvent():
            waits = "an issue's label"
        case IssueEvent():
            waits = "an issue"
        case CommentEvent():
            waits = "a comment"
        case PullRequestEvent():
            waits = "a pull request"
        case Cron():
            waits = "the clock"
    return f"it waits for {waits}, the event's route is {event.route}"


def _no_repository(_: Trigger, event: Event) -> str:
    if event.project is not None:
        return f"the event names project {_cut(event.project)} alone, and the entry has no run.repository"
    return "the event names no repository"


def _other_repository(trigger: Trigger, event: Event) -> str:
    repo = event.repo or f"{event.project}/{trigger.work.repository}"
    return f"it waits for {' or '.join(trigger.repos)}, the event is of {_cut(repo)}"


def _action(trigger: Trigger, event: Event) -> str:
    actions = getattr(trigger.on, "actions", ())
    waits = f": it waits for {' or '.join(actions)}" if actions else ""
    return f"the action {_cut(event.action)} does not start it{waits}"


def _number(trigger: Trigger, event: Event) -> str:
    return f"it waits for #{getattr(trigger.on, 'number', None)}, the event is of #{event.number}"


def _no_label(trigger: Trigger, event: Event) -> str:
    wanted = (
        labels_in_words(trigger.on.labels) if isinstance(trigger.on, LabelEvent | PullRequestEvent) else ""
    )
    there = f"labels: {', '.join(event.labels) or 'none'}"
    added = "" if event.added is None else f"; added: {', '.join(event.added) or 'none'}"
    return f"it waits for the label {wanted}, the event has {_cut(there + added)}"


def _phrase(trigger: Trigger, event: Event) -> str:
    wanted = trigger.on.phrase if isinstance(trigger.on, CommentEvent) else ""
    return f"the comment {_cut(repr(text_of(event.comment)))} does not hold {wanted!r} as a word of its own"


def _review(trigger: Trigger, event: Event) -> str:
    states = trigger.on.review_states if isinstance(trigger.on, PullRequestEvent) else ()
    return (
        f"it waits for a review that is {' or '.join(states)}, this one is {event.review_state or 'nothing'}"
    )


def _person(_: Trigger, event: Event) -> str:
    who = "who opened the pull request" if event.item is Item.PULL_REQUEST else "who wrote it"
    return f"{who} may not start runs"


# Where the entry and the event have names of their own to tell; the others are said as the table of words says them.
_WITH_NAMES: Mapping[str, Callable[[Trigger, Event], str]] = {
    words.OTHER_FORGE: _other_forge,
    words.DISARMED: _disarmed,
    words.OTHER_EVENT: _other_event,
    words.NO_REPOSITORY: _no_repository,
    words.OTHER_REPOSITORY: _other_repository,
    words.ACTION_NOT_ACTIONABLE: _action,
    words.NO_MATCHING_CLOSE_TRIGGER: _action,
    words.NO_MATCHING_PR_TRIGGER: lambda trigger, event: (
        _no_label(trigger, event)
        if event.action in getattr(trigger.on, "actions", ())
        else _action(trigger, event)
    ),
    words.CLOSE_NUMBER_NOT_MATCHED: _number,
    words.NO_ALLOWLISTED_LABEL: _no_label,
    words.NO_TRIGGER_PHRASE: _phrase,
    words.REVIEW_STATE_NOT_MATCHED: _review,
    words.PR_AUTHOR_NOT_ALLOWED: _person,
}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


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


STANDARD_INPUT = "-"
UNKNOWN = "not known: the database cannot be asked"


def rehearse(
    event: Annotated[
        str, typer.Option("--event", metavar="FILE", help="One event as JSON; - reads standard input.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show what an event would start, and at which gate each entry stops it; nothing starts."""
    from pidispatch.app import rehearsal
    from pidispatch.app.installation import Installation

    with Installation.here() as here:
        found = rehearsal.rehearse(here, _event(event))
    if as_json:
        print_json(document_of(found))
    else:
        _print(found)
    raise typer.Exit(0 if found.without_rows is None else 1)


def _event(file: str) -> "Event":
    from pidispatch.app.rehearsal import event_in
    from pidispatch.domain.text.jsonfile import SIZE_LIMIT
    from pidispatch.domain.triggers.eventfile import parse_event

    if file != STANDARD_INPUT:
        return event_in(Path(file))
    if sys.stdin is None:  # closed by who started us
        raise typer.BadParameter("there is no standard input to read the event from; give a file")
    return parse_event(sys.stdin.buffer.read(SIZE_LIMIT + 1), "standard input")


def _print(found: "Rehearsal") -> None:
    problem = problem_of(found.event)
    if problem is not None:
        out.print(f"nothing starts, and no entry is asked: {problem_in_words(problem)} ({problem})")
        return
    if not found.verdicts:
        out.print(plain(f"nothing starts: {found.file} has no entry"))
        return
    print_table(
        ("id", "place", "gate", "what it says", "reason"), [_row(each, found) for each in found.verdicts]
    )
    out.print()
    if found.would is None:
        why = (
            "whose rights decide was not said"
            if found.dropped == words.AUTHORITY_NOT_ASKED
            else "no entry matches"
        )
        out.print(f"nothing starts: {why} ({found.dropped})")
        return
    print_facts(list(_facts(found.would)))
    if found.without_rows is not None:
        err.print(plain(f"pidispatch: what stands in its way is not known: {found.without_rows}"))


def _row(verdict: "Verdict", found: "Rehearsal") -> Sequence[object]:
    trigger = verdict.trigger
    name, place = trigger.shown, f"triggers[{trigger.index}], line {trigger.line}"
    if not isinstance(verdict, Match):
        return name, place, gate_name(verdict), reason_in_words(verdict, found.event), verdict.reason
    by = f" by {verdict.by!r}" if verdict.by is not None else ""
    first = found.would is not None and found.would.match == verdict
    told = "matches" if first else "matches too, but an entry that is asked before it does"
    return name, place, "", f"{told}: {verdict.type}{by}", None


def _facts(would: "WouldStart") -> "Iterator[tuple[str, object]]":
    match, work, rows = would.match, would.match.trigger.work, would.rows
    subject = match.subject()
    yield "would start", match.trigger.shown
    yield "kind", work.kind
    yield "does", does_in_words(match.command, match.flow)
    if would.not_enforced:
        yield "not enforced yet", ", ".join(f"run.{key}" for key in would.not_enforced)
    yield "target", would.target
    yield "subject", f"{subject.scope} {subject.item} {subject.lane} ({subject.key})"
    yield "priority", work.ask.priority
    yield "replicas", work.replicas
    yield "waits for", " and ".join(map(_condition, work.wait_for))
    yield "one-shot", _one_shot(match.one_shot, rows)
    yield (
        "while running",
        f"{match.trigger.while_running}: {UNKNOWN if rows is None else _becomes(rows.step)}",
    )
    yield "failures", UNKNOWN if rows is None else _breaker(rows)


def _condition(condition: WaitAfter | WaitProfile) -> str:
    match condition:
        case WaitAfter(instant):
            return f"{cell(instant)} to pass"
        case WaitProfile(name):
            return f"{name} to say go"
        case _:
            assert_never(condition)


def _one_shot(key: str | None, rows: "Rows | None") -> str | None:
    if key is None:
        return None
    if rows is None:
        return f"{key}: {UNKNOWN}"
    if rows.spent is None:
        return f"{key}: not used up; this run would use it up"
    return f"{key}: used up by {rows.spent.run} at {cell(rows.spent.at)}, so the run is refused ({words.ONCE_ALREADY_SPENT})"


def _becomes(step: ArrivalStep) -> str:
    there = step.at.public_id if step.at is not None else ""
    match step.kind:
        case Became.COALESCED:
            return f"{there} waits for the same subject and takes the content of this event"
        case Became.QUEUED:
            return f"{there} goes on; this run waits behind it"
        case Became.SKIPPED:
            return f"{there} is there, so nothing starts"
        case Became.SUPERSEDING:
            return f"{there} is stopped for this run"
        case _:
            return "no run of the same subject stands in its way"


def _breaker(rows: "Rows") -> str:
    return "none: it is not held back" if rows.breaker is None else breaker_in_words(rows.breaker)
