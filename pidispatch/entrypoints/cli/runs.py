"""`runs`, `show` and `logs`."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.domain.runs.run import State
from pidispatch.domain.words import Use, meaning
from pidispatch.entrypoints.cli.output import (
    AsJson,
    RunName,
    cell,
    err,
    out,
    plain,
    print_facts,
    print_json,
    print_table,
)
from pidispatch.entrypoints.cli.wording import (
    amount,
    cost_of,
    how_it_stands,
    money_in_words,
    refusals_in_words,
    session_in_words,
    telemetry_rows,
    tokens_of,
    wait_in_words,
)

if TYPE_CHECKING:
    from pidispatch.app.verbs.read import RunDetail, RunRecord


def logs(
    run: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the container ends.")] = False,
) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.output import Gone, NotYet, RunOutput, output_of

    try:
        with Installation.here() as here:
            match output_of(here, run, follow=follow):
                case RunOutput(texts):
                    for text in texts:
                        sys.stdout.write(text)
                        sys.stdout.flush()
                case NotYet(name, state):
                    err.print(plain(f"{name} has no container yet: it is {state}; --follow waits for it"))
                    raise typer.Exit(1)
                case Gone(name, state):
                    ending = "has ended" if state == State.ENDED else f"is {state}"
                    err.print(plain(f"{name} {ending}: its output is gone with its container"))
                    err.print(plain(f"its record stays: pidispatch show {name}"))
                    raise typer.Exit(1)
    except KeyboardInterrupt:
        return  # the reader has seen enough; the run goes on


def runs(
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, newest first.")] = 20,
    state: Annotated[State | None, typer.Option(help="Only runs in this state.")] = None,
    as_json: AsJson = False,
) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import read

    with Installation.here() as here:
        found = read.runs(here, limit=limit, state=state)
    if as_json:
        print_json(found)
    elif found:
        print_table(
            ("run", "target", "state", "model", "turns", "tokens", "cost", "seconds", "asked for"),
            [_row(run) for run in found],
        )
    else:
        out.print("no runs" if state is None else f"no runs in state {state}")


def _row(run: "RunRecord") -> Sequence[object]:
    return (
        run.public_id,
        run.target,
        how_it_stands(run),
        run.model,
        run.turns,
        run.tokens_total,
        money_in_words(run.cost_micros, run.cost_class) if run.calls else None,
        run.seconds,
        run.created_at,
    )


def show(run: RunName, as_json: AsJson = False) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import read

    with Installation.here() as here:
        found = read.detail(here, run)
    if as_json:
        print_json(found)
    else:
        _print_run(found)


def _print_run(found: "RunDetail") -> None:
    run, payload, bounds = found.run, found.payload, found.bounds
    print_facts(
        (
            ("run", f"{run.public_id} (number {run.id})"),
            ("repeats", run.requeue_of),
            ("session", "; ".join(session_in_words(run, found.session)) or None),
            ("asked for by", _asked_by(found)),
            ("trigger", f"{run.trigger_type} {run.trigger_id}" if run.trigger_id else None),
            ("target", run.target),
            ("folder", payload.folder if payload else None),
            ("state", how_it_stands(run)),
            ("until", run.until),
            ("waits", "; ".join(wait_in_words(found.wait)) if found.wait else None),
            ("behind", run.blocked_by),
            ("place in line", run.place),
            ("result", run.result),
            ("remarks", "; ".join(meaning(word, Use.REMARK) or word for word in run.remarks or ()) or None),
            ("exit code", run.exit_code),
            ("flow", run.flow),
            ("model", " / ".join(part for part in (run.provider, run.model) if part)),
            ("models", ", ".join(bounds.allowed_models) if bounds.allowed_models else None),
            ("without tools", ", ".join(bounds.excluded_tools) if bounds.excluded_tools else None),
            ("skills from", payload.skills_dir if payload else None),
            ("image", run.image),
            ("turns", f"{run.turns} of at most {run.max_turns}" if run.turns is not None else None),
            ("tokens", tokens_of(run)),
            ("cost", cost_of(run)),
            ("may spend", _may_spend(found)),
            ("seconds", run.seconds),
            ("priority", run.priority or None),
            ("host", run.host or run.pinned_host),
            (
                "task",
                f"{payload.task_bytes:,} bytes, {payload.task_kept_bytes:,} kept" if payload else "deleted",
            ),
            ("task deleted at", payload.expires_at if payload else None),
            ("asked for", run.created_at),
            ("admitted", run.admitted_at),
            ("started", run.started_at),
            ("ended", run.ended_at),
        )
    )
    _print_attempts(found)
    _print_telemetry(found)
    _print_money(found)
    _print_egress(found)
    _print_requests(found)


def _may_spend(found: "RunDetail") -> str | None:
    """`$0.50`; with what was asked for, where less is in force."""
    bounds = found.bounds
    if bounds.cost_cap_micros is None:
        return None
    told = amount("micros", bounds.cost_cap_micros)
    asked = bounds.cost_cap_asked
    return (
        told
        if asked in {None, bounds.cost_cap_micros}
        else f"{told} ({amount('micros', asked)} was asked for)"
    )


def _asked_by(found: "RunDetail") -> str | None:
    chain = found.chain
    if chain.parent is None:
        return None
    begun = "" if chain.root == chain.parent else f", in the chain of {chain.root}"
    return f"{chain.parent} (depth {chain.depth}{begun})"


def _print_requests(found: "RunDetail") -> None:
    """What its outbox asked for, and what became of that."""
    chain = found.chain
    if not chain.answers:
        return
    out.print()
    print_table(
        ("request", "became", "refused"),
        [
            (answer.request, answer.run, " ".join(word for word in (answer.refused, answer.why) if word))
            for answer in chain.answers
        ],
    )
    told = sum(answer.refused is not None for answer in chain.answers)
    if chain.refused is not None and chain.refused > told:
        out.print(f"{chain.refused - told:,} more were refused")


def _print_attempts(found: "RunDetail") -> None:
    if found.attempts:
        out.print()
        print_table(
            ("attempt", "host", "container", "go", "exited", "code", "outcome", "reason", "report"),
            [
                (
                    attempt.attempt,
                    attempt.host,
                    attempt.container_id[:12] if attempt.container_id else None,
                    attempt.go_at,
                    attempt.exited_at,
                    attempt.exit_code,
                    attempt.outcome,
                    " ".join(word for word in (attempt.reason, attempt.why) if word),
                    {True: "signed", False: "unverified", None: None}[attempt.report_verified],
                )
                for attempt in found.attempts
            ],
        )
    for attempt in found.attempts:
        if (refused := refusals_in_words(attempt)) is not None:
            out.print(plain(f"attempt {attempt.attempt}: {refused}, {cell(attempt.refused_at)}"))


def _print_telemetry(found: "RunDetail") -> None:
    """What each box said of itself, beside what was measured."""
    for attempt in found.attempts:
        if attempt.telemetry:
            out.print()
            print_table(
                (f"attempt {attempt.attempt} said", "of itself", "measured", ""),
                list(telemetry_rows(attempt.telemetry, attempt.compared)),
            )


def _print_money(found: "RunDetail") -> None:
    if found.usage:
        out.print()
        print_table(
            (
                "provider",
                "model",
                "calls",
                "failed",
                "estimated",
                "in",
                "out",
                "cache read",
                "cache write",
                "cost",
            ),
            [
                (
                    used.provider,
                    used.model,
                    used.calls,
                    used.failed_calls,
                    used.estimated_calls,
                    used.tokens_in,
                    used.tokens_out,
                    used.tokens_cache_read,
                    used.tokens_cache_write,
                    money_in_words(used.cost_micros, used.cost_class),
                )
                for used in found.usage
            ],
        )
    for late in found.adjustments:
        before, after = (money_in_words(micros, None) for micros in (late.micros_before, late.micros_after))
        tokens = f"{late.tokens_before:,} tokens are {late.tokens_after:,}"
        out.print(
            plain(f"put right {cell(late.at)}: of a call of {late.model} {tokens}, {before} is {after}")
        )
    if found.reservations:
        out.print()
        print_table(
            ("window", "unit", "from", "state", "held", "settled", "used by all"),
            [
                (
                    f"{held.scope} {held.period}",
                    held.unit,
                    held.starts_on,
                    held.state,
                    amount(held.unit, held.held),
                    None if held.settled is None else amount(held.unit, held.settled),
                    amount(held.unit, held.used),
                )
                for held in found.reservations
            ],
        )


def _print_egress(found: "RunDetail") -> None:
    """Where it went outside of its box, and where it was not let."""
    if not found.egress:
        return
    out.print()
    print_table(
        ("host", "port", "egress", "rule", "connections", "bytes up", "bytes down", "last"),
        [
            (
                used.host,
                str(used.port) if used.port else None,
                "allowed" if used.allowed else "blocked",
                used.reason,
                used.connections,
                used.bytes_up,
                used.bytes_down,
                used.last_at,
            )
            for used in found.egress
        ],
    )
