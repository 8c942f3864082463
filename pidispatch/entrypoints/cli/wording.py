"""Say in words where a run and the queue stand."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pidispatch.domain import words
from pidispatch.domain.runs.run import OCCUPYING, State
from pidispatch.domain.triggers.grammar.waitfor import instant_of
from pidispatch.entrypoints.cli.output import cell

if TYPE_CHECKING:
    from pidispatch.app.verbs.explain import BreakerRecord
    from pidispatch.app.verbs.queue import QueueStatus
    from pidispatch.app.verbs.read import (
        AttemptRecord,
        RunRecord,
        SessionRecord,
        WaitRecord,
    )
    from pidispatch.domain.runs.telemetry import Compared


def how_it_stands(run: "RunRecord") -> str:
    """`completed`, `completed (answer-cut)`, `policy: over-budget (day-cap)`, `deferred: scope`, `running: unreachable`."""
    if run.ended:
        words = [run.why] if run.why else list(run.remarks or ())
        detail = f" ({', '.join(words)})" if words else ""
        return (
            f"{run.outcome}: {run.reason}{detail}"
            if run.reason not in {None, run.outcome}
            else f"{run.outcome}{detail}"
        )
    if run.state == State.QUEUED:
        return run.state
    if run.unreachable:
        return f"{run.state}: unreachable"
    word = run.stop_reason if run.state in OCCUPYING else run.cause
    return f"{run.state}: {word}" if word else run.state


def tokens_of(run: "RunRecord") -> str:
    cached = run.tokens_cache_read + run.tokens_cache_write
    parts = f"{run.tokens_in:,} in, {run.tokens_out:,} out" + (f", {cached:,} cached" if cached else "")
    return f"{run.tokens_total:,} ({parts}) in {count_of(run.calls, 'call')}"


def money_in_words(micros: int | None, cost_class: str | None) -> str:
    """`$0.25`, `at most $0.25`, `≥ $0.25` for a floor, `~ $0.25 est.`, `$0.00 (plan)`, `no price`."""
    if micros is None:
        return "no price"
    dollars = amount("micros", micros)
    match cost_class:
        case "assumed":
            return f"at most {dollars}"
        case "floor":
            return f"≥ {dollars}"
        case "estimate":
            return f"~ {dollars} est."
        case "plan":
            return f"{dollars} (plan)"
        case _:
            return dollars


def cost_of(run: "RunRecord") -> str | None:
    """What the run came to, of which cap, and what its calls hold now; None for one that has not begun."""
    if run.started_at is None and not run.calls:
        return None
    words = money_in_words(run.cost_micros, run.cost_class)
    if run.cost_cap_micros is not None:
        words = f"{words} of at most {amount('micros', run.cost_cap_micros)}"
    return f"{words}, {amount('micros', run.held_micros)} held" if run.held_micros else words


def refusals_in_words(attempt: "AttemptRecord") -> str | None:
    """`3 calls refused, the last for cost-cap: it needed at least $0.36 of the $0.20 that were left`."""
    if not attempt.refusals:
        return None
    said = f"{count_of(attempt.refusals, 'call')} refused, the last for {attempt.refused_reason}"
    if attempt.refused_needed is None or attempt.refused_left is None:
        return said
    unit = "micros" if attempt.refused_reason == words.COST_CAP else "tokens"
    needed, left = amount(unit, attempt.refused_needed), amount(unit, attempt.refused_left)
    return f"{said}: it needed at least {needed}, and {left} was left"


MOST_SAID = 200  # characters of what a box said, on a screen


def telemetry_rows(
    said: Mapping[str, Any], compared: "Sequence[Compared]"
) -> Iterator[tuple[str, str, str, str]]:
    """What a box said of itself: the thing, its word for it, what was measured, and whether they differ."""
    for line in compared:
        unit = "micros" if line.of == "micros" else "tokens"
        named = {"code": "exit code", "micros": "cost", "resumed": "session resumed"}.get(line.of, line.of)
        yield named, _said(unit, line.said), _said(unit, line.measured), "differs" if line.differs else ""
    context, session = said.get("context"), said.get("session") or {}
    more = {
        "reason": said.get("reason"),
        "signal": said.get("signal"),
        "session": session.get("reason"),
        "context": f"{context['tokens']:,} of {context['window']:,} tokens" if context else None,
        "most memory": (said.get("resources") or {}).get("mem_peak"),
        "message": said.get("message"),
    }
    yield from ((name, _said("bytes", value), "", "") for name, value in more.items() if value is not None)


def _said(unit: str, value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case int():
            return amount(unit, value)
        case text:
            line = " ".join(str(text).split())
            return line if len(line) <= MOST_SAID else f"{line[:MOST_SAID]}…"


def count_of(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def progress_of(run: "RunRecord") -> str:
    """One line on a run that goes on: state, turns, tokens, seconds, and why it waits."""
    parts = [how_it_stands(run)]
    if run.started_at is not None:
        parts.append(count_of(run.turns or 0, "turn"))
        parts.append(f"{run.tokens_total:,} tokens")
        parts.append(f"{run.seconds or 0:.0f} s")
    if run.until is not None:
        parts.append(f"not before {cell(run.until)}")
    if run.blocked_by is not None:
        parts.append(f"behind {run.blocked_by}")
    if run.place is not None:
        parts.append(f"place {run.place} in line")
    return " · ".join(parts)


def wait_in_words(wait: "WaitRecord") -> Iterator[str]:
    """What a run waits or waited for, and how the asking went; a line each."""
    yield "may start " + " and ".join(_condition(each) for each in wait.conditions)
    if wait.last_profile is not None:
        faults = f", {count_of(wait.faults, 'fault')} in a row" if wait.faults else ""
        asked = f"{count_of(wait.checks, 'check')}{faults}"
        yield f"{wait.last_profile} said {wait.last_answer} at {cell(wait.last_at)}: {asked}"
    if wait.superseded_by is not None:
        yield f"its work is done by {wait.superseded_by}"
    elif wait.let_go_at is not None:
        yield f"nothing is waited for any more since {cell(wait.let_go_at)}"


def _condition(kept: Any) -> str:

    match kept:
        case {"after": str(text)} if (instant := instant_of(text)) is not None:
            return f"after {cell(instant)}"
        case {"profile": str(name)}:
            return f"when {name} says go"
        case _:
            return "when something is true that this version does not know"


def session_in_words(run: "RunRecord", session: "SessionRecord") -> Iterator[str]:
    """With which run's work it goes on; at which cap it stopped, what is kept of it, and how it can go on."""
    if run.continues is not None:
        with_it = {True: ", with its conversation", False: f", without its conversation ({session.reason})"}
        told = "" if session.resumed is None or run.started_at is None else with_it[session.resumed]
        yield f"goes on with the work of {run.continues}{told}"
    if session.stopped_at is None:
        return
    stopped = f"stopped at its cap of {session.stopped_at}"
    if session.continued_by:
        yield f"{stopped}; it went on as {', '.join(session.continued_by)}"
    elif session.kept_until is None:
        yield f"{stopped}; its session is not kept ({session.reason or 'deleted'})"
    else:
        kept = f"its session ({session.kept_bytes:,} bytes) is kept until {cell(session.kept_until)}"
        yield f"{stopped}; {kept}: `pidispatch grant {run.public_id} +2.00` goes on from there"


def queue_in_words(queue: "QueueStatus", host: str) -> str:
    """What is true of the queue for a run that must start on `host`."""
    workers = queue.workers_on(host)
    if workers == 0:
        there = f" of {host}" if queue.workers else ""
        return f"no worker{there} is running: start `pidispatch up` or `pidispatch worker`"
    alive = "1 worker is running" if workers == 1 else f"{workers} workers are running"
    if queue.paused_since is not None:
        return f"{alive}, but everything is paused since {cell(queue.paused_since)}"
    return alive


def breaker_in_words(breaker: "BreakerRecord") -> str:
    """How a trigger stands whose last runs failed."""
    failures = f"{count_of(breaker.failures, 'failure')} in a row ({breaker.reason})"
    if not breaker.is_open:
        return f"trigger {breaker.trigger_id}: {failures}"
    tries = (
        f"{breaker.probe} tries" if breaker.probe else f"the next run from {cell(breaker.probe_at)} on tries"
    )
    return (
        f"held back: trigger {breaker.trigger_id} since {cell(breaker.opened_at)}, {failures}; {tries};"
        " `pidispatch triggers close` ends it"
    )


_PER = {"day": "a day", "week": "a week", "month": "a month"}
_UNITS = {"runs": "runs", "tokens": "tokens", "micros": "dollars"}


def window_name(scope: str, unit: str, period: str) -> str:
    """`runs a day`, `dollars a week for /home/me/web`."""
    of = "" if scope == "*" else f" for {scope}"
    return f"{_UNITS.get(unit, unit)} {_PER.get(period, period)}{of}"


def amount(unit: str, number: int) -> str:
    """A count, or micro-dollars as dollars."""
    if unit != "micros":
        return f"{number:,}"
    dollars = f"{number / 1_000_000:,.6f}".rstrip("0")
    whole, _, cents = dollars.partition(".")
    return f"${whole}.{cents:0<2}"
