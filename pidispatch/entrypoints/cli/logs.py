"""`logs`: what a run's container printed, while the container exists."""

import sys
from typing import Annotated

import typer

from pidispatch.domain.runs.run import State
from pidispatch.entrypoints.cli.options import RunName
from pidispatch.entrypoints.cli.output import err, plain


def logs(
    run: RunName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the container ends.")] = False,
) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.output import Gone, NotYet, Output, output_of

    try:
        with Installation.here() as here:
            match output_of(here, run, follow=follow):
                case Output(texts):
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
