"""`forget-host`: give up a host that is gone for good."""

from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import cell, err, out, plain, print_json
from pidispatch.entrypoints.cli.wording import count_of

if TYPE_CHECKING:
    from pidispatch.app.verbs.control import Silence


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
