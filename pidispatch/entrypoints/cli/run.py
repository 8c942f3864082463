"""`run`: queue one run, and wait for it when asked to."""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from pidispatch.domain.runs.ask import TASK_LIMIT, Ask, cut_task
from pidispatch.domain.runs.run import State
from pidispatch.entrypoints.cli.output import AsJson, cell, err, out, plain, print_json, say_unread
from pidispatch.entrypoints.cli.task import task_bytes
from pidispatch.entrypoints.cli.wording import how_it_stands, progress_of, queue_in_words, tokens_of
from pidispatch.errors import PidispatchError

if TYPE_CHECKING:
    from pidispatch.app.submit import Desk, RunRecord, Submission


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


BELONGS = "the entry of the triggers file says what the run does"


def refuse_beside_trigger(given: Mapping[str, object]) -> None:
    """Raises BadParameter for what the entry itself says. `given` maps options to what was given, or to None where nothing was."""
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise typer.BadParameter(f"--trigger does not go with {', '.join(wrong)}: {BELONGS}")


FLOW = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")


def _flow(text: str | None) -> str | None:
    if text is None or FLOW.fullmatch(text):
        return text
    raise typer.BadParameter("want 1 to 64 of a-z, 0-9, _ and -, beginning and ending with a letter or digit")


def _word(text: str | None) -> str | None:
    """A name handed to other programs, as the settings take it."""
    from pidispatch.config.grammar import Unwanted, word

    try:
        return None if text is None else word(text)
    except Unwanted as error:
        raise typer.BadParameter(f"want {error.want}") from error


def _hosts(texts: list[str] | None) -> list[str] | None:
    from pidispatch.domain.egress.allowlist import NotAnEntry, read_entry

    for text in texts or ():
        try:
            read_entry(text)
        except NotAnEntry as error:
            raise typer.BadParameter(f"{text!r} {error}") from error
    return texts


def _dollars(text: str | None) -> str | None:
    from pidispatch.domain.money import WANTED, micros_of

    if text is None or micros_of(text) is not None:
        return text
    raise typer.BadParameter(f"want {WANTED}")


def _tools(text: str | None) -> str | None:
    from pidispatch.domain.triggers.grammar.run import TOOL_NAMES

    named = [] if text is None else text.split(",")
    if len(set(named)) == len(named) and set(named) <= set(TOOL_NAMES):
        return text
    raise typer.BadParameter(f"want some of {', '.join(TOOL_NAMES)} between commas, each once")


def _instant(text: str, ahead: timedelta) -> datetime | None:
    """None for one that has passed: then there is nothing to wait for."""
    from pidispatch.domain.triggers.grammar.waitfor import instant_of

    found, now = instant_of(text), datetime.now(UTC)
    if found is None:
        raise typer.BadParameter(
            "want an instant with its zone, such as 2026-12-01T06:00Z or 2026-12-01T07:00+01:00",
            param_hint="--after",
        )
    if found - now > ahead:
        raise typer.BadParameter(
            f"is more than {ahead / timedelta(days=1):g} days ahead (PI_WAIT_AFTER_MAX_MS)",
            param_hint="--after",
        )
    return found if found > now else None


def run(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="The root of a git repository.")
    ] = None,
    *,
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Start this schedule of the triggers file now; goes with --wait and --json alone.",
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(metavar="TEXT", help="What the agent shall do.")] = None,
    task_file: Annotated[
        str | None, typer.Option(metavar="PATH", help="A file with the task; - reads standard input.")
    ] = None,
    flow: Annotated[
        str | None, typer.Option(callback=_flow, help="The skill of the repository to use.")
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(
            callback=_word, help="The provider of its model; as configured when it starts unless given."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(callback=_word, help="The model; as configured when it starts unless given.")
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(min=1, max=2**31 - 1, help="Most turns of the agent; as configured unless given."),
    ] = None,
    max_cost: Annotated[
        str | None,
        typer.Option(
            metavar="USD",
            callback=_dollars,
            help="Most dollars that it may spend; can only lower what is configured.",
        ),
    ] = None,
    exclude_tools: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            callback=_tools,
            help="Tools of pi to take away, such as bash,write; the image must support it.",
        ),
    ] = None,
    image: Annotated[
        str | None, typer.Option(callback=_word, help="The image to run in; it is never pulled.")
    ] = None,
    priority: Annotated[
        int | None,
        typer.Option(
            min=-100, max=100, help="Higher starts earlier: a step is worth ten minutes of waiting."
        ),
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="INSTANT",
            help="Start not before this instant, such as 2026-12-01T06:00Z; at most PI_WAIT_AFTER_MAX_MS ahead.",
        ),
    ] = None,
    egress: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            callback=_hosts,
            help="A host that it may reach besides those of all runs; may be repeated.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Start although the folder has uncommitted changes.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the end; exit code 0 when it completed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    of_the_run = {"--flow": flow, "--provider": provider, "--model": model, "--max-turns": max_turns}
    of_the_run |= {"--max-cost": max_cost, "--exclude-tools": exclude_tools}
    of_the_run |= {"--image": image, "--priority": priority, "--force": force or None, "--after": after}
    of_the_run |= {"--egress": ", ".join(egress or ()) or None}
    if trigger is not None:
        refuse_beside_trigger({"FOLDER": folder, "--task": task, "--task-file": task_file, **of_the_run})
        fire(trigger, wait=wait, as_json=as_json)
    if folder is None:
        raise typer.BadParameter("give FOLDER, or --trigger ID for a schedule of the triggers file")
    content = task_bytes(task, task_file)

    from pidispatch.app.submit import LocalRequest
    from pidispatch.config.environment import read_settings
    from pidispatch.domain.money import micros_of

    settings = read_settings()
    instant = None if after is None else _instant(after, settings.wait_after_max)
    request = LocalRequest(
        folder=folder,
        task=content,
        ask=Ask(
            flow=flow,
            provider=provider,
            model=model,
            image=image,
            priority=priority or 0,
            max_turns=max_turns,
            cost_cap_micros=None if max_cost is None else micros_of(max_cost),
            excluded_tools=None if exclude_tools is None else tuple(exclude_tools.split(",")),
            egress_hosts=tuple(egress or ()) or None,
        ),
        force=force,
        after=instant,
    )
    _hand_in(lambda desk: desk.submit(request), content, wait=wait, as_json=as_json)


def fire(name: str, *, wait: bool, as_json: bool) -> NoReturn:
    """Queue the run of a schedule now."""
    from pidispatch.app.submit import entry_named
    from pidispatch.config.environment import read_settings

    entry = entry_named(read_settings(), name)
    content = entry.trigger.work.prompt.encode(errors="replace")
    _hand_in(lambda desk: desk.fire(entry), content, wait=wait, as_json=as_json)


def _hand_in(submit: "Callable[[Desk], Submission]", task: bytes, *, wait: bool, as_json: bool) -> NoReturn:
    from pidispatch.app.installation import Installation
    from pidispatch.app.submit import desk

    with Installation.here() as here:
        opened = desk(here)
        made = submit(opened)
        _say(made, len(task), here.host, quiet=as_json)
        ended = watch(opened, made.submitted.public_id, made.run) if wait else None
    if as_json:
        print_json(_document(made, ended or made.run, task))
    elif ended is not None:
        _say_end(ended)
    raise typer.Exit(0 if ended is None or ended.outcome == "completed" else 1)


def _say(made: "Submission", size: int, host: str, *, quiet: bool) -> None:
    """What became of the request, then what is true of the queue. Programs find it in the document instead."""
    said = err if quiet else out
    if size > TASK_LIMIT:
        err.print(f"the task has {size:,} bytes: it is cut visibly after {TASK_LIMIT:,}")
    run, public_id = made.run, made.submitted.public_id
    if run is None:
        same = ", as it was before" if made.submitted.duplicate or made.submitted.coalesced else ""
        said.print(plain(f"{public_id} is stored{same}"))
        say_unread(made.unread, public_id)
        return
    if made.submitted.duplicate:
        said.print(
            plain(
                f"{run.public_id} is this same request of this minute, nothing new is queued: {progress_of(run)}"
            )
        )
    elif made.submitted.coalesced:
        said.print(plain(f"coalesced into {run.public_id}, asked for a moment ago: {progress_of(run)}"))
    elif run.state == State.HELD:
        said.print(plain(f"{run.public_id} is held until {cell(run.until)} for {run.target}"))
    else:
        said.print(plain(f"{run.public_id} is queued for {run.target}"))
        if not made.submitted.rung:
            err.print("Redis does not answer, so no worker was woken: a worker finds the run by itself")
    if made.queue is None:
        say_unread(made.unread, public_id)
    elif not run.ended:
        said.print(plain(queue_in_words(made.queue, host)))


def _say_end(run: "RunRecord") -> None:
    took = f" after {run.seconds:.1f} s" if run.seconds is not None else ""
    out.print(plain(f"{run.public_id}: {how_it_stands(run)}{took}, {tokens_of(run)}"))
    out.print(plain(f"pidispatch show {run.public_id}"))


def _document(made: "Submission", run: "RunRecord | None", task: bytes) -> dict[str, object]:
    queue = made.queue
    return {
        "public_id": made.submitted.public_id,
        "duplicate": made.submitted.duplicate,
        "coalesced": made.submitted.coalesced,
        "rung": made.submitted.rung,
        "task_bytes": len(task),
        "task_kept_bytes": len(cut_task(task)),
        "queue": None
        if queue is None or run is None
        else {
            "workers": len(queue.workers),
            "workers_here": queue.workers_on(run.pinned_host or ""),
            "paused_since": queue.paused_since,
        },
        "run": run,
        "unread": made.unread,
    }
