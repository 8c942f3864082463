"""`requeue`: repeat a run that has ended."""

from typing import Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson, RunName
from pidispatch.entrypoints.cli.output import err, out, plain, print_json, say_unread
from pidispatch.entrypoints.cli.task import task_bytes
from pidispatch.entrypoints.cli.wording import progress_of, queue_in_words


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
