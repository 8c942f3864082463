"""`explain`: why a run started, waits or was refused."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_never

from pidispatch.domain import words
from pidispatch.domain.runs.run import State
from pidispatch.domain.schedules.lateness import Cause, Why
from pidispatch.domain.words import Use, meaning
from pidispatch.entrypoints.cli.output import AsJson, RunName, cell, out, plain, print_json, print_table
from pidispatch.entrypoints.cli.triggerwording import at_place, length
from pidispatch.entrypoints.cli.wording import (
    amount,
    breaker_in_words,
    cost_of,
    count_of,
    how_it_stands,
    refusals_in_words,
    session_in_words,
    tokens_of,
    wait_in_words,
    window_name,
)

if TYPE_CHECKING:
    from pidispatch.app.verbs.explain import AttemptRecord, DeliveryRecord, Explanation, Lateness, RunRecord
    from pidispatch.domain.runs.explain import GateLine, LastAnswer, WaitsFor

MOST_TOLD = 10  # who asked, on a screen


def explain(run: RunName, as_json: AsJson = False) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import explain as why

    with Installation.here() as here:
        found = why.explain(here, run)
    if as_json:
        print_json(found)
    else:
        _print(found)


def _print(found: "Explanation") -> None:
    run = found.run
    for line in _told(found):
        out.print(plain(line))
    out.print()
    print_table(
        ("gate", "verdict", "saw"),
        [(_gate(line), str(line.verdict), seen_in_words(line)) for line in found.gates],
    )
    if found.attempts or run.ended:
        out.print()
    for attempt in found.attempts:
        out.print(plain(_attempt(attempt)))
    if run.ended:
        cost = cost_of(run)
        money = f", {cost}" if cost else ""
        out.print(plain(f"ended {cell(run.ended_at)}: {how_it_stands(run)}, {tokens_of(run)}{money}"))


def _told(found: "Explanation") -> Iterator[str]:
    run, answer = found.run, found.answer
    yield f"{run.public_id}: {how_it_stands(run)}"
    if run.requeue_of is not None:
        yield f"repeats {run.requeue_of}"
    yield from session_in_words(run, found.session)
    yield from origin_in_words(found)
    yield from _who_asked(found.asked)
    if found.wait is not None:
        yield from wait_in_words(found.wait)
    if answer is not None:
        yield _answer(answer)
    elif found.wait is None or run.state == State.QUEUED:
        yield "nobody has looked at it yet"
    if found.waits_for is not None:
        yield waits_in_words(found.waits_for)
    if found.breaker is not None:
        yield breaker_in_words(found.breaker)
    for fault in found.red:
        yield f"red: {fault.word}: {fault.sentence}; {fault.way_out}"


def _who_asked(asked: Sequence["DeliveryRecord"]) -> Iterator[str]:
    yield from (_asked(each) for each in asked[:MOST_TOLD])
    if asked and asked[0].of > MOST_TOLD:
        yield f"and {asked[0].of - MOST_TOLD:,} more asked for it"


def _asked(asked: "DeliveryRecord") -> str:
    """`cron asked for it 2026-11-29 02:30:00: coalesced`, and what of, where the source says so."""
    of = " ".join(word for word in (asked.event, asked.action) if word)
    why = f" ({asked.reason})" if asked.reason not in {None, asked.decision} else ""
    again = f", told again {count_of(asked.repeats, 'time')}" if asked.repeats else ""
    return f"{asked.source}{f' {of}' if of else ''} asked for it {cell(asked.received_at)}: {asked.decision}{why}{again}"


def _answer(answer: "LastAnswer") -> str:
    word = " ".join(part for part in (answer.word, answer.detail) if part)
    at = cell(datetime.fromisoformat(answer.at)) if answer.at else "once"
    return f"last looked at {at}: {answer.kind}" + (f", {word}" if word else "")


def _gate(line: "GateLine") -> str:
    if line.gate != "window":
        return line.gate
    return window_name(line.saw["scope"], line.saw["unit"], line.saw["period"])


def seen_in_words(line: "GateLine") -> str:
    """What the gate saw on one line; the word that stopped the run comes first."""
    words = [line.why] if line.why else []
    match line.gate, line.saw:
        case _, None:
            pass
        case "window", {"unit": unit, "used": used, "cap": cap, "amount": adds, "state": state, **more}:
            held: Any = more.get("held")
            others = f" and {amount(unit, held)} held by runs that have not ended" if held else ""
            words.append(
                f"{amount(unit, used)} of {amount(unit, cap)}, {amount(unit, adds)} of it this run's{others}: {state}"
            )
        case "slots", [*scopes]:
            words.append(", ".join(_slot(scope) for scope in scopes))
        case "pause", [*scopes]:
            words.append(", ".join(map(str, scopes)) or "none")
        case "windows", "kept":
            words.append("kept from an earlier attempt")
        case gate, seen:
            words.append(_checked(gate, seen))
    return ": ".join(words)


def _busy(until: Any) -> str:
    return "" if until is None else f", busy until {cell(datetime.fromisoformat(str(until)))}"


def _checked(gate: str, seen: object) -> str:
    """What was found where no slot and no window is counted."""
    match gate, seen:
        case "host-capacity", {"host": host, "free": free, "capacity": capacity}:
            return f"{free} of {capacity} free on {host}"
        case "provider", {"api": api, "key": key, **more}:
            return f"{api}, {'a key' if key else 'no key'}{_busy(more.get('busy_until'))}"
        case "models", {"models": models, "cost_cap": cap}:
            return _bounds(models, cap)
        case "folder", {"owner": owner}:
            return f"owned by user {owner}"
        case _:
            return str(seen)


def _bounds(models: Sequence[str] | None, cap: int | None) -> str:
    listed = "any model" if models is None else f"one of {_listed(models)}"
    return listed if cap is None else f"{listed}, at most {amount('micros', cap)}"


def _slot(scope: Mapping[str, Any]) -> str:
    limit = "" if scope.get("limit") is None else f" of {scope['limit']}"
    return f"{scope.get('occupied')}{limit} in {scope.get('scope')}"


def origin_in_words(found: "Explanation") -> list[str]:
    """Of a run that a schedule started: which instant it is of, how late it started, and why."""
    run, slot = found.run, found.slot
    if slot is None or found.lateness is None:
        by_hand = run.trigger_type == "cron" and run.trigger_id is not None and not _by_a_person(run)
        return [f"schedule {run.trigger_id}, started by hand"] if by_hand else []
    planned = at_place(slot.planned_at, slot.zone)
    utc = "" if slot.zone is None else f" ({cell(slot.planned_at)})"
    lines = [f"schedule {slot.schedule}, planned for {planned}{utc}"]
    if found.lateness.started or not run.ended:
        lines.append(lateness_in_words(found.lateness))
    return lines


def _by_a_person(run: "RunRecord") -> bool:
    return run.requeue_of is not None or run.continues is not None


def lateness_in_words(late: "Lateness") -> str:
    time = length(timedelta(seconds=late.seconds))
    why = "; ".join(_late_by(cause) for cause in late.causes)
    if late.started and not late.causes:
        return f"started on time, {time} after its instant"
    begun = f"started {time} late" if late.started else f"not started yet, {time} after its instant"
    return f"{begun}: {why}" if why else begun


def _late_by(cause: Cause) -> str:
    until = f" until {cell(cause.until)}" if cause.until is not None else ""
    match cause.word:
        case Why.NOT_PLANNED:
            return f"no worker was there to plan it{until}"
        case Why.CATCH_UP:
            return "it was made up for, and what is made up waits up to a quarter of an hour (catch-up)"
        case Why.PAUSED:
            return f"it was paused{until}"
        case Why.FOLDER_BUSY:
            return f"its folder was busy with {cause.run}{until}"
        case Why.WAITED:
            return f"it waited for its turn{until}, for room on its host or in its limits"
        case Why.TRIED_AGAIN:
            return f"its first attempt came to nothing, the next got its go at {cell(cause.until)}"
        case Why.PREPARED:
            return f"its box took{until} to start"
        case _ as never:
            assert_never(never)


def waits_in_words(waits: "WaitsFor") -> str:
    match waits.word, waits.numbers:
        case words.EVERYTHING_PAUSED, {"since": since}:
            what = f"waits for `pidispatch resume`: everything is paused since {cell(since)}"
        case words.SCOPE_PAUSED, {"scopes": scopes}:
            what = f"waits for `pidispatch resume --scope …`: paused is {_listed(scopes)}"
        case cause, {"until": until}:
            what = f"waits until {cell(until)}: {_cause(cause)}"
        case words.SCOPE, {"behind": behind}:
            what = f"waits for its folder, in which {behind} is at work"
        case words.SCOPE, {"full": scopes}:
            what = f"waits for room in {_listed(scopes)}"
        case words.NO_WORKER, {"host": host}:
            what = f"waits for a worker on {host}: start `pidispatch up` or `pidispatch worker` there"
        case words.HOST_FULL, {"host": host, "used": used, "capacity": capacity}:
            what = f"waits for room on {host}: {used} of {capacity} are running"
        case words.A_WORKER_TO_LOOK, _:
            what = "waits for its turn, nothing holds it back"
        case word, _:
            what = f"waits: {word}"
    return what if waits.place is None else f"{what}; place {waits.place} in line"


def _cause(word: str) -> str:
    """The word stands behind what it means, before the way out."""
    said = meaning(word, Use.CAUSE)
    if said is None:
        return word
    what, colon, way_out = said.partition(":")
    return f"{what} ({word}){colon}{way_out}"


def _listed(scopes: Sequence[str]) -> str:
    return ", ".join(scopes)


def _attempt(attempt: "AttemptRecord") -> str:
    went = "got its go" if attempt.go_at else "never got its go"
    parts = [f"attempt {attempt.attempt} on {attempt.host} {went}"]
    reason = attempt.reason if attempt.reason != attempt.outcome else None
    ended = " ".join(word for word in (attempt.outcome, reason, attempt.why) if word)
    if ended:
        parts.append(ended)
    if attempt.exit_code is not None:
        parts.append(f"exit code {attempt.exit_code}")
    if (refused := refusals_in_words(attempt)) is not None:
        parts.append(refused)
    return ", ".join(parts)
