"""`triggers`: what starts runs by itself, when it is due, and what became of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from pidispatch.entrypoints.cli import (
    closing,
    triggernext,
    triggerrearm,
    triggershow,
    triggertest,
    triggerzone,
)
from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import err, out, plain, print_json, print_table
from pidispatch.entrypoints.cli.triggerdocument import about, document_of, exit_code, say_problems
from pidispatch.entrypoints.cli.triggerwording import (
    at_place,
    failures_of,
    planner,
    run_of,
    slot_state,
    starts,
    waits_for,
)

if TYPE_CHECKING:
    from pidispatch.app.triggers import Standing, Told

triggers = typer.Typer()
triggers.command()(triggershow.show)
triggers.command("next")(triggernext.next_instants)
triggers.command("test")(triggertest.rehearse)
triggers.command()(triggerrearm.rearm)
triggers.command()(closing.close)
triggers.command()(triggerzone.zone)


@triggers.callback(invoke_without_command=True)
def list_triggers(context: typer.Context, as_json: AsJson = False) -> None:
    """List the entries in force: what each does, what it waits for, and what it last did."""
    if context.invoked_subcommand is not None:
        return
    from pidispatch.app.installation import Installation
    from pidispatch.app.triggers import standing

    with Installation.here() as here:
        found = standing(here)
    if as_json:
        print_json({**about(found), "triggers": [document_of(each) for each in found.entries]})
    else:
        say_problems(found)
        _print_list(found)
    raise typer.Exit(exit_code(found))


def _print_list(found: "Standing") -> None:
    for note in found.notes:
        err.print(plain(f"note: {note}"))
    if found.file is None:
        out.print("no triggers file: PI_TRIGGERS_FILE is not set")
    elif found.problems:
        err.print(
            "below is what workers plan by the last good edit; entries for events of a forge are not among it"
        )
    elif not found.entries:
        out.print("nothing starts by itself")
    if found.entries:
        _print_table(found)
    if found.without_rows is not None:
        err.print(plain(f"pidispatch: what was planned and did run is missing: {found.without_rows}"))


HEADINGS = (
    "id", "type", "does", "next due, or waits for", "last slot", "its run", "while running", "priority", "host",
)  # fmt: skip


def _print_table(found: "Standing") -> None:
    """With a column for failures only where there are some."""
    rows = [tuple(_row(each, readable=not found.problems)) for each in found.entries]
    if any(each.breaker is not None for each in found.entries):
        failing = [failures_of(each.breaker) for each in found.entries]
        print_table(
            (*HEADINGS, "failures"), [(*row, failed) for row, failed in zip(rows, failing, strict=True)]
        )
    else:
        print_table(HEADINGS, rows)


def _row(told: "Told", *, readable: bool) -> Sequence[object]:
    trigger, zone = told.trigger, told.timetable.zone if told.timetable is not None else None
    waits = waits_for(trigger) if trigger is not None and zone is None else at_place(told.next_at, zone)
    last = told.last
    return (
        told.shown,
        trigger.type if trigger is not None else "cron",
        starts(told),
        waits or "never again",
        f"{at_place(last.planned_at, zone, named=False)} {slot_state(last)}" if last is not None else None,
        run_of(last) if last is not None else None,
        trigger.while_running if trigger is not None else None,
        trigger.work.ask.priority if trigger is not None else None,
        planner(told, readable=readable),
    )
