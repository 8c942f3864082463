"""Show a run while it goes on: a live line on a terminal, else a line for each change."""

from typing import TYPE_CHECKING

import typer

from pidispatch.entrypoints.cli.output import err, plain
from pidispatch.entrypoints.cli.wording import progress_of

if TYPE_CHECKING:
    from pidispatch.app.submit import Desk, RunRecord


def watch(desk: "Desk", run: "RunRecord") -> "RunRecord":
    """The run once it has ended. Ctrl-C leaves it running, says so, and ends the command with exit code 1."""
    try:
        return _on_terminal(desk, run) if err.is_terminal else _in_lines(desk, run)
    except KeyboardInterrupt:
        err.print(plain(f"{run.public_id} goes on without you: pidispatch show {run.public_id}"))
        raise typer.Exit(1) from None


def _on_terminal(desk: "Desk", run: "RunRecord") -> "RunRecord":
    from rich.text import Text

    with err.status(Text(plain(progress_of(run)))) as line:
        for now in desk.follow(run.id):
            line.update(Text(plain(progress_of(now))))
    return now


def _in_lines(desk: "Desk", run: "RunRecord") -> "RunRecord":
    said = None
    for now in desk.follow(run.id):
        change = (now.state, now.cause, now.attempt, now.turns)
        if change != said and not now.ended:
            err.print(plain(progress_of(now)))
        said = change
    return now
