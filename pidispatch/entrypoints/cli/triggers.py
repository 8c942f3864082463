"""`triggers`: what starts runs by itself, when it is due, and what became of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import cell, err, out, plain, print_facts, print_json, print_table
from pidispatch.entrypoints.cli.triggerwording import (
    at_place,
    clock_note,
    does,
    late,
    planner,
    run_of,
    slot_state,
    waits_for,
)

if TYPE_CHECKING:
    from pidispatch.app.triggers import SlotRecord, Standing, Told

SHOWN_SLOTS = 10
STAYS = "a worker that runs keeps the last good edit; one that starts is refused"

triggers = typer.Typer(name="triggers", help="What starts runs by itself.")

TriggerName = Annotated[
    str,
    typer.Argument(metavar="ID", help="An entry's id, or the beginning of the one that `triggers` shows."),
]


@triggers.callback(invoke_without_command=True)
def list_triggers(context: typer.Context, as_json: AsJson = False) -> None:
    """List the entries in force: what each does, what it waits for, and what it last did."""
    if context.invoked_subcommand is not None:
        return
    from pidispatch.app.places import read_settings
    from pidispatch.app.triggers import standing

    found = standing(read_settings())
    if as_json:
        print_json({**_about(found), "triggers": [document_of(each) for each in found.entries]})
    else:
        say_problems(found)
        _print_list(found)
    raise typer.Exit(2 if found.problems else 1 if found.without_rows else 0)


@triggers.command()
def show(name: TriggerName, as_json: AsJson = False) -> None:
    """Show one entry in full, and its last ten instants with what became of them."""
    from pidispatch.app import triggers as reading
    from pidispatch.app.places import read_settings

    settings = read_settings()
    found = reading.standing(settings)
    if found.problems:
        say_problems(found)
    told = reading.named(found, name)
    scheduled = told.timetable is not None and found.without_rows is None
    slots = reading.slots_of(settings, told.id, SHOWN_SLOTS) if scheduled else ()
    if as_json:
        print_json({**_about(found), "trigger": document_of(told), "slots": slots})
    else:
        _print_entry(told)
        _print_slots(told, slots)
        if found.without_rows is not None:
            err.print(plain(f"pidispatch: what it planned and did is missing: {found.without_rows}"))
    raise typer.Exit(1 if found.without_rows else 0)


@triggers.command("next")
def next_instants(
    name: TriggerName,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=1000, help="How many.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show when a schedule is due next, in its zone and in UTC, with what clocks do between."""
    from pidispatch.app import triggers as reading
    from pidispatch.app.places import read_settings

    found = reading.standing(read_settings())
    if found.problems:
        say_problems(found)
    told = reading.named(found, name)
    instants = reading.next_of(told, number)
    zone = told.timetable.zone if told.timetable is not None else "UTC"
    if as_json:
        moments = [
            {
                "at": instant.at,
                "local": instant.local.isoformat(),
                "clock_change": instant.change,
                "skipped": instant.skipped,
            }
            for instant in instants
        ]
        print_json({"id": told.id, "zone": zone, "instants": moments})
        return
    if not instants:
        out.print("nothing is due in the next 50 years")
        return
    heading = (f"in {zone}", "offset", "in UTC", "clock")
    print_table(
        heading,
        [
            (f"{each.local:%a %Y-%m-%d %H:%M:%S}", f"{each.local:%z}", each.at, clock_note(each))
            for each in instants
        ],
    )


def say_problems(found: "Standing") -> None:
    """What is wrong with the file as it is, and what holds meanwhile; on standard error."""
    for problem in found.problems:
        err.print(plain(f"pidispatch: {problem}"))
    if found.problems:
        err.print(plain(f"the file is not in force: {STAYS}; `pidispatch check FILE` judges an edit"))


def _print_list(found: "Standing") -> None:
    for note in found.notes:
        err.print(plain(f"note: {note}"))
    if found.file is None:
        out.print("no triggers file: PI_TRIGGERS_FILE is not set")
    elif not found.entries:
        out.print("nothing starts by itself" if not found.problems else "no worker has planned anything yet")
    if found.entries:
        print_table(
            (
                "id",
                "type",
                "does",
                "next due, or waits for",
                "last slot",
                "its run",
                "while running",
                "priority",
                "host",
            ),
            [_row(each) for each in found.entries],
        )
    if found.without_rows is not None:
        err.print(plain(f"pidispatch: what was planned and did run is missing: {found.without_rows}"))


def _row(told: "Told") -> Sequence[object]:
    trigger, zone = told.trigger, told.timetable.zone if told.timetable is not None else None
    waits = waits_for(trigger) if trigger is not None and zone is None else at_place(told.next_at, zone)
    last = told.last
    return (
        told.shown,
        trigger.type if trigger is not None else "cron",
        does(trigger) if trigger is not None else None,
        waits or "never again",
        f"{at_place(last.planned_at, zone)} {slot_state(last)}" if last is not None else None,
        run_of(last) if last is not None else None,
        trigger.while_running if trigger is not None else None,
        trigger.work.priority if trigger is not None else None,
        planner(told),
    )


def _print_entry(told: "Told") -> None:
    trigger, timetable, record = told.trigger, told.timetable, told.record
    facts: list[tuple[str, object]] = [("trigger", told.shown)]
    if trigger is not None:
        facts += [
            ("place in the file", f"triggers[{trigger.index}], line {trigger.line}"),
            ("does", does(trigger)),
            ("pattern" if timetable is not None else "waits for", waits_for(trigger)),
            ("while running", trigger.while_running),
        ]
    elif record is not None:
        facts += [("place in the file", "none: it is planned by another file, or an earlier edit")]
        facts += [("pattern", record.pattern)]
    if timetable is not None:
        stated = trigger is None or getattr(trigger.on, "tz", None) is not None
        facts += [
            ("zone", timetable.zone if stated else f"{timetable.zone} (the host's; on.tz names another)"),
            ("missed instants", getattr(trigger.on, "missed", None) if trigger else record and record.missed),
            ("next due", at_place(told.next_at, timetable.zone) or "never again"),
            ("in UTC", told.next_at),
            ("planned by", planner(told)),
            ("edited", record.changed_at if record is not None else None),
        ]
    print_facts([*facts, *_work(told)])


def _work(told: "Told") -> Sequence[tuple[str, object]]:
    """Every key of `run` as it is written."""
    document = document_of(told)
    run = document.get("run")
    fields = run.items() if isinstance(run, dict) else ()
    return [(f"run.{key}", _written(value)) for key, value in fields]


def _written(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(_written(each) for each in value)
        case dict():
            return ", ".join(f"{key}: {_written(each)}" for key, each in value.items())
        case _:
            return str(value)


def _print_slots(told: "Told", slots: "Sequence[SlotRecord]") -> None:
    if told.timetable is None:
        return
    zone = told.timetable.zone
    if not slots:
        if told.in_force is not None:
            out.print("\nno instant of it has come yet")
        return
    out.print()
    print_table(
        (f"planned, in {zone}", "in UTC", "became", "run", "started late by"),
        [
            (
                (at_place(slot.planned_at, zone) or "").removesuffix(f" {zone}"),
                cell(slot.planned_at),
                slot_state(slot),
                run_of(slot),
                late(slot),
            )
            for slot in slots
        ],
    )


def _about(found: "Standing") -> dict[str, object]:
    return {
        "file": found.file,
        "file_problems": list(found.problems),
        "notes": list(found.notes),
        "without_rows": found.without_rows,
    }


def document_of(told: "Told") -> dict[str, object]:
    """One entry for programs; `on` and `run` are as in the file."""
    from pidispatch.domain.files.triggers import entry_document

    trigger = told.trigger
    written = entry_document(trigger) if trigger is not None else {}
    return {
        "id": told.id,
        "index": trigger.index if trigger is not None else None,
        "line": trigger.line if trigger is not None else None,
        "type": trigger.type if trigger is not None else "cron",
        "on": written.get("on"),
        "run": written.get("run"),
        "while_running": trigger.while_running if trigger is not None else None,
        "priority": trigger.work.priority if trigger is not None else None,
        "zone": told.timetable.zone if told.timetable is not None else None,
        "next_at": told.next_at,
        "in_force": told.in_force,
        "schedule": told.record,
        "last_slot": told.last,
    }
