"""`cancel`: end runs, and say which are proven gone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson, Reason
from pidispatch.entrypoints.cli.output import err, out, plain, print_json, say_unread
from pidispatch.entrypoints.cli.wording import count_of, how_it_stands

if TYPE_CHECKING:
    from pidispatch.app.verbs.control import Cancelled


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
