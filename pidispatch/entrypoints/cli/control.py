"""Hold back, stop, repeat and go on: what an operator does to runs and hosts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.domain.money import WANTED, micros_of
from pidispatch.entrypoints.cli.output import (
    AsJson,
    Reason,
    RunName,
    cell,
    err,
    out,
    plain,
    print_json,
    say_unread,
)
from pidispatch.entrypoints.cli.task import task_bytes
from pidispatch.entrypoints.cli.wording import amount as amount_in_words
from pidispatch.entrypoints.cli.wording import count_of, how_it_stands, progress_of, queue_in_words

if TYPE_CHECKING:
    from pidispatch.app.verbs.control import Cancelled, Pause, Silence


def forget_host(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A host as `status` shows it.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import control

    with Installation.here() as here:
        found = control.silent_host(here, host)
        if not yes:
            _ask(found)
        lost = control.forget_host(here, host)
    if as_json:
        print_json({"host": host, "lost": lost, "waiting": found.waiting})
        return
    for public_id in lost:
        out.print(plain(f"{public_id} is lost"))
    what = f"{host} goes on" if found.alive else f"{host} is forgotten"
    out.print(plain(f"{what}: {count_of(len(lost), 'run')} lost"))
    if found.waiting and not found.alive:
        waiting = count_of(found.waiting, "run")
        out.print(plain(f"{waiting} still waiting for it alone: `pidispatch cancel` ends those too"))


def _ask(found: "Silence") -> None:
    if found.alive:
        err.print(
            plain(f"{found.host} lives, with another engine than the one that has the boxes of these runs")
        )
    else:
        err.print(plain(f"{found.host} has been silent since {cell(found.heartbeat_at)}"))
    for public_id in found.runs:
        err.print(plain(f"  {public_id} will be lost"))
    if not typer.confirm("Is it gone for good?", err=True):
        raise typer.Exit(1)


def _micros(text: str) -> int:
    micros = micros_of(text.removeprefix("+"))
    if micros is None:
        raise typer.BadParameter(f"want {WANTED}, such as +2.00")
    return micros


def grant(
    run: RunName,
    amount: Annotated[
        int,
        typer.Argument(metavar="DOLLARS", parser=_micros, help="What the new run may spend, such as +2.00."),
    ],
    as_json: AsJson = False,
) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import control

    with Installation.here() as here:
        made = control.grant(here, run, micros=amount)
    if as_json:
        document = {"public_id": made.public_id, "continues": made.continues, "cost_cap_micros": made.micros}
        print_json({**document, "rung": made.rung, "run": made.run, "unread": made.unread})
        return
    may = f"may spend {amount_in_words('micros', made.micros)}"
    queued = "queued" if made.run is None else f"queued for {made.run.target}"
    out.print(plain(f"{made.public_id} goes on with {made.continues} and {may}: {queued}"))
    if not made.rung:
        err.print("Redis does not answer, so no worker was woken: a worker finds the run by itself")
    say_unread(made.unread, made.public_id)
    if made.run is not None and made.queue is not None and not made.run.ended:
        out.print(plain(queue_in_words(made.queue, made.run.pinned_host or here.host)))


def requeue(
    run: RunName,
    *,
    task_file: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="A file with another task for it; - reads standard input."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    task = None if task_file is None else task_bytes(None, task_file)

    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import control

    with Installation.here() as here:
        made = control.requeue(here, run, task=task)
    if as_json:
        document = {"public_id": made.public_id, "requeue_of": made.requeue_of, "duplicate": made.duplicate}
        print_json({**document, "rung": made.rung, "run": made.run, "unread": made.unread})
        return
    if made.duplicate:
        same = f"{made.public_id} is this same request of this minute, nothing new is queued"
        out.print(plain(same if made.run is None else f"{same}: {progress_of(made.run)}"))
    else:
        where = "" if made.run is None else f" for {made.run.target}"
        out.print(plain(f"{made.public_id} repeats {made.requeue_of} and is queued{where}"))
        if not made.rung:
            err.print("Redis does not answer, so no worker was woken: a worker finds the run by itself")
    say_unread(made.unread, made.public_id)
    if made.run is not None and made.queue is not None and not made.run.ended:
        out.print(plain(queue_in_words(made.queue, made.run.pinned_host or here.host)))


EVERYTHING = "*"

Scope = Annotated[
    str,
    typer.Option(
        metavar="FOLDER", help="A folder, project:ID or a key that `status` shows; else everything."
    ),
]


Now = Annotated[bool, typer.Option("--now", help="Refuse every model call too, and cut those under way.")]


def pause(
    scope: Scope = EVERYTHING, now: Now = False, reason: Reason = None, as_json: AsJson = False
) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import control

    with Installation.here() as here:
        made = control.pause(here, scope, reason=reason, stops_calls=now)
    if as_json:
        print_json(made)
        return
    by = f" by {made.paused_by}" if made.paused_by else ""
    begun = "is paused" if made.changed else f"was paused already, since {cell(made.paused_at)}{by}"
    calls = ", and every model call is refused" if made.stopped_at is not None else ""
    out.print(plain(f"{_name(scope)} {begun}: nothing more starts{calls}"))
    _say_standing(made)


def resume(scope: Scope = EVERYTHING, reason: Reason = None, as_json: AsJson = False) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import control

    with Installation.here() as here:
        resumed = control.resume(here, scope, reason=reason)
    if as_json:
        print_json(resumed)
        return
    made = resumed.pause
    ended = f"was paused since {cell(made.paused_at)} and goes on" if made.changed else "was not paused"
    out.print(plain(f"{_name(scope)} {ended}"))
    if made.everything_paused_at is not None:
        since = cell(made.everything_paused_at)
        out.print(plain(f"everything is still paused since {since}: `pidispatch resume` ends that"))
    _say_standing(made)
    if not resumed.rung and made.unread is None:
        err.print("Redis does not answer, so no worker was woken: workers look by themselves")


def _name(scope: str) -> str:
    return "everything" if scope == EVERYTHING else scope


def _say_standing(made: "Pause") -> None:
    if made.running is None or made.waiting is None:
        say_unread(made.unread)
        return
    running = "no run is going on" if not made.running else f"{count_of(made.running, 'run')} still going on"
    out.print(plain(f"{running}, {made.waiting:,} waiting"))


def cancel(
    run: Annotated[
        str | None,
        typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or its number."),
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every run that has not ended.")] = False,
    reason: Reason = None,
    as_json: AsJson = False,
) -> None:
    if (run is None) != everything:
        raise typer.BadParameter("give exactly one of RUN and --all")
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import control

    with Installation.here() as here:
        if run is None:
            found = control.cancel_all(here, reason=reason)
            _print_all(found, as_json=as_json)
            raise typer.Exit(0 if all(one.gone for one in found) else 1)
        made = control.cancel(here, run, reason=reason)
    if as_json:
        print_json(made)
    else:
        _say(made)
    raise typer.Exit(0 if made.gone else 1)


def _print_all(found: "Sequence[Cancelled]", *, as_json: bool) -> None:
    still = [one.public_id for one in found if not one.gone]
    if as_json:
        gone = [one.public_id for one in found if one.gone]
        print_json({"asked": len(found), "gone": gone, "still_stopping": still, "cancelled": found})
        return
    for one in found:
        _say(one)
    if not found:
        out.print("no run was waiting or going on")
        return
    sure = f"{count_of(len(found) - len(still), 'run')} confirmed gone"
    out.print(f"{sure}, {len(still):,} still stopping" if still else sure)


def _say(made: "Cancelled") -> None:
    if made.run is None:
        done = "had ended already" if made.had_ended else "is gone" if made.gone else "was asked to stop"
        out.print(plain(f"{made.public_id} was {made.was} and {done}"))
        say_unread(made.unread, made.public_id)
    elif made.had_ended:
        err.print(plain(f"{made.public_id} had ended already: {how_it_stands(made.run)}"))
    elif not made.gone:
        err.print(
            plain(
                f"{made.public_id} is still stopping: {how_it_stands(made.run)}; it ends as cancelled once its container"
                f" is gone: pidispatch show {made.public_id}"
            )
        )
    else:
        out.print(plain(f"{made.public_id} was {made.was} and is gone: {how_it_stands(made.run)}"))
