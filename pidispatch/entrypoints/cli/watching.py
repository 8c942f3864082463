"""Show a run while it goes on: a live line on a terminal, else a line for each change."""

from typing import TYPE_CHECKING

import typer

from pidispatch.entrypoints.cli.output import err, plain
from pidispatch.entrypoints.cli.wording import progress_of
from pidispatch.errors import PidispatchError

if TYPE_CHECKING:
    from pidispatch.app.submit import Desk, RunRecord


def watch(desk: "Desk", public_id: str, run: "RunRecord | None") -> "RunRecord":
    """The run once it has ended; `run` is how it was when it was asked for, None where that could not be read.

    Ctrl-C leaves it running, says so, and ends the command with exit code 1; so does a Postgres that stays away.
    """
    try:
        return _on_terminal(desk, public_id, run) if err.is_terminal else _in_lines(desk, public_id)
    except KeyboardInterrupt:
        err.print(plain(f"{public_id} goes on without you: pidispatch show {public_id}"))
        raise typer.Exit(1) from None
    except PidispatchError as error:
        err.print(plain(f"{public_id} is stored, and how it ends could not be read: {error}"))
        raise typer.Exit(1) from None


def _on_terminal(desk: "Desk", public_id: str, run: "RunRecord | None") -> "RunRecord":
    from rich.text import Text

    with err.status(Text(plain(public_id if run is None else progress_of(run)))) as line:
        for now in desk.follow(public_id):
            line.update(Text(plain(progress_of(now))))
    return now


def _in_lines(desk: "Desk", public_id: str) -> "RunRecord":
    said = None
    for now in desk.follow(public_id):
        change = (now.state, now.cause, now.attempt, now.turns)
        if change != said and not now.ended:
            err.print(plain(progress_of(now)))
        said = change
    return now
