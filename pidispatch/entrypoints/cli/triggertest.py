"""`triggers test`: what an event would start, gate by gate."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, assert_never

import typer

from pidispatch.domain import words
from pidispatch.domain.runs.ask import WaitAfter, WaitProfile
from pidispatch.domain.triggers.arrival import ArrivalStep, Became
from pidispatch.domain.triggers.event import problem_of
from pidispatch.domain.triggers.verdicts import Match
from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import cell, err, out, plain, print_facts, print_json, print_table
from pidispatch.entrypoints.cli.triggertestdocument import document_of
from pidispatch.entrypoints.cli.triggerwording import does_in_words
from pidispatch.entrypoints.cli.verdictwording import gate_name, problem_in_words, reason_in_words
from pidispatch.entrypoints.cli.wording import breaker_in_words

if TYPE_CHECKING:
    from pidispatch.app.rehearsal import Rehearsal, Rows, WouldStart
    from pidispatch.domain.triggers.event import Event
    from pidispatch.domain.triggers.verdicts import Verdict

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
