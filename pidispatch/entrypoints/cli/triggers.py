"""`triggers` and `triggers show`: what starts runs by itself, when it is due, and what became of it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from pidispatch.entrypoints.cli import triggercontrol, triggertest
from pidispatch.entrypoints.cli.output import (
    AsJson,
    EntryName,
    cell,
    err,
    out,
    plain,
    print_facts,
    print_json,
    print_table,
)
from pidispatch.entrypoints.cli.triggerdocument import about, document_of, exit_code, say_problems
from pidispatch.entrypoints.cli.triggerwording import (
    at_place,
    failures_of,
    late,
    planner,
    run_of,
    slot_state,
    starts,
    waits_for,
)
from pidispatch.entrypoints.cli.wording import breaker_in_words

if TYPE_CHECKING:
    from pidispatch.app.triggers import ShownTriggers, SlotRecord, Told


SHOWN_SLOTS = 10
NO_PACKAGES = "this version stages no packages, so a run has none either way"


def show(name: EntryName, as_json: AsJson = False) -> None:
    """Show one entry in full, and its last ten instants with what became of them."""
    from pidispatch.app import triggers as reading
    from pidispatch.app.installation import Installation

    with Installation.here() as here:
        found = reading.standing(here)
        if found.problems:
            say_problems(found)
        told = reading.named(found, name)
        scheduled = told.timetable is not None and found.without_rows is None
        slots = reading.slots_of(here, told.id, SHOWN_SLOTS) if scheduled else ()
    if as_json:
        print_json({**about(found), "trigger": document_of(told), "slots": slots})
    else:
        _print_entry(told, readable=not found.problems)
        _print_slots(told, slots)
        if found.without_rows is not None:
            err.print(plain(f"pidispatch: what it planned and did is missing: {found.without_rows}"))
    raise typer.Exit(exit_code(found))


def _print_entry(told: "Told", *, readable: bool) -> None:
    trigger, timetable, record = told.trigger, told.timetable, told.record
    facts: list[tuple[str, object]] = [("trigger", told.shown)]
    if trigger is not None:
        facts += [
            ("place in the file", f"triggers[{trigger.index}], line {trigger.line}"),
            ("does", starts(told)),
            ("pattern" if timetable is not None else "waits for", waits_for(trigger)),
            ("while running", trigger.while_running),
        ]
    elif record is not None:
        place = (
            "none: another host's file has it, or an earlier edit had"
            if readable
            else "not known: the file is not in force"
        )
        facts += [("place in the file", place)]
        facts += [("pattern", record.pattern)]
    if timetable is not None:
        stated = trigger is None or getattr(trigger.on, "tz", None) is not None
        facts += [
            ("zone", timetable.zone if stated else f"{timetable.zone} (the host's: the entry has no on.tz)"),
            ("missed instants", getattr(trigger.on, "missed", None) if trigger else record and record.missed),
            ("next due", at_place(told.next_at, timetable.zone) or "never again"),
            ("in UTC", told.next_at),
            ("planned by", planner(told, readable=readable)),
            ("edited", record.changed_at if record is not None else None),
        ]
    if told.breaker is not None:
        facts.append(("failures", breaker_in_words(told.breaker)))
    print_facts([*facts, *_work(told)])


def _work(told: "Told") -> Sequence[tuple[str, object]]:
    """Every key of `run` as it is written."""
    document = document_of(told)
    run = document.get("run")
    fields = run.items() if isinstance(run, dict) else ()
    return [
        (f"run.{key}", f"{_written(value)} ({NO_PACKAGES})" if key == "packages" else _written(value))
        for key, value in fields
    ]


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
                at_place(slot.planned_at, zone, named=False),
                cell(slot.planned_at),
                slot_state(slot),
                run_of(slot),
                late(slot),
            )
            for slot in slots
        ],
    )


triggers = typer.Typer()


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


def _print_list(found: "ShownTriggers") -> None:
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


def _print_table(found: "ShownTriggers") -> None:
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


triggers.command()(show)
triggers.command("next")(triggercontrol.next_instants)
triggers.command("test")(triggertest.rehearse)
triggers.command()(triggercontrol.rearm)
triggers.command()(triggercontrol.close)
triggers.command()(triggercontrol.zone)
