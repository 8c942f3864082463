"""`pause` and `resume`: the operator's switch."""

from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson, Reason
from pidispatch.entrypoints.cli.output import cell, err, out, plain, print_json, say_unread
from pidispatch.entrypoints.cli.wording import count_of

if TYPE_CHECKING:
    from pidispatch.app.verbs.control import Pause

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
