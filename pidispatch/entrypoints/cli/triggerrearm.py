"""`triggers rearm`: let a one-shot that was used up fire again."""

from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import err, out, plain, print_json

if TYPE_CHECKING:
    from pidispatch.app.rearming import RearmedOneShot

OneShotName = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="An entry's id, or the beginning of the one that `triggers` shows; the whole key of one that is gone.",
    ),
]


def rearm(name: OneShotName, as_json: AsJson = False) -> None:
    """Let a one-shot fire again that a run, or a mark in the file, says is used up."""
    from pidispatch.app import rearming
    from pidispatch.app.installation import Installation

    with Installation.here() as here:
        found = rearming.rearm(here, name)
    if as_json:
        print_json(
            {
                "trigger": found.key,
                "run": found.run,
                "unmarked": found.unmarked,
                "still_marked_in": found.still_marked_in,
            }
        )
    else:
        out.print(plain(_told(found, name)))
    if found.still_marked_in is not None:
        err.print(plain(f"pidispatch: {_way_out(found)}"))
        raise typer.Exit(1)


def _told(found: "RearmedOneShot", name: str) -> str:
    who = f"{found.run} had used it up" if found.run is not None else "a mark alone said that it was used up"
    mark = (
        f"its mark was taken out of {found.file}"
        if found.unmarked
        else f"no mark was taken out of {found.file}"
    )
    where = "again" if found.still_marked_in is None else "in the database"
    return f"{name} is armed {where}: {who}; {mark}"


def _way_out(found: "RearmedOneShot") -> str:
    place = found.still_marked_in
    if place == found.file:
        return f"its mark is still in {place} and holds it back: delete on.disarmed there, or run this again"
    return f"its mark was written into {place} and holds it back there: delete on.disarmed in it"
