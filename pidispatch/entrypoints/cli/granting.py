"""`grant`: let a run that stopped at a cap go on."""

from typing import Annotated

import typer

from pidispatch.domain.money import WANTED, micros_of
from pidispatch.entrypoints.cli.options import AsJson, RunName
from pidispatch.entrypoints.cli.output import err, out, plain, print_json, say_unread
from pidispatch.entrypoints.cli.wording import amount as amount_in_words
from pidispatch.entrypoints.cli.wording import queue_in_words


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
