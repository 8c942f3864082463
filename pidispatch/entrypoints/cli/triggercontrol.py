"""What an operator asks of triggers and does to them: `next`, `rearm`, `close`, `zone`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.output import (
    AsJson,
    EntryName,
    Reason,
    cell,
    err,
    out,
    plain,
    print_json,
    print_table,
)
from pidispatch.entrypoints.cli.triggerdocument import say_problems
from pidispatch.entrypoints.cli.triggerwording import clock_note
from pidispatch.entrypoints.cli.wording import count_of

if TYPE_CHECKING:
    from pidispatch.app.rearming import RearmedOneShot
    from pidispatch.app.triggerzone import HostZone
    from pidispatch.domain.schedules.upcoming import Coming


ZoneName = Annotated[str | None, typer.Argument(metavar="ZONE", help="A zone such as Europe/Berlin.")]


def zone(name: ZoneName = None, as_json: AsJson = False) -> None:
    """Show in which zone this host's schedules without `tz` are planned, or settle another."""
    from pidispatch.app import triggerzone
    from pidispatch.app.installation import Installation

    with Installation.here() as here:
        found = triggerzone.shown(here) if name is None else triggerzone.change(here, name)
    if as_json:
        print_json(
            {
                "host": found.host,
                "zone": found.zone,
                "before": found.before,
                "settled_at": found.settled_at,
                "settled_by": found.settled_by,
                "clock": found.clock,
            }
        )
    else:
        out.print(plain(_zone_told(found)))


def _zone_told(found: "HostZone") -> str:
    if found.zone is None:
        return f"{found.host}: not settled; the first worker that plans settles it, here it would be {found.clock}"
    since = f"settled {cell(found.settled_at)} by {found.settled_by}"
    before = f", before it was {found.before}" if found.before else ""
    other = f"; the clock here is {found.clock}" if found.clock != found.zone else ""
    return f"{found.host}: {found.zone}, {since}{before}{other}"


OneShotName = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="An entry's id, or the beginning of the one that `triggers` shows; the whole key of one that is gone.",
    ),
]


def rearm(name: OneShotName, as_json: AsJson = False) -> None:
    """Let a one-shot fire again that a run, or a mark in the file, says is used up."""
    from pidispatch.app import rearming
    from pidispatch.app.installation import Installation

    with Installation.here() as here:
        found = rearming.rearm(here, name)
    if as_json:
        print_json(
            {
                "trigger": found.key,
                "run": found.run,
                "unmarked": found.unmarked,
                "still_marked_in": found.still_marked_in,
            }
        )
    else:
        out.print(plain(_told(found, name)))
    if found.still_marked_in is not None:
        err.print(plain(f"pidispatch: {_way_out(found)}"))
        raise typer.Exit(1)


def _told(found: "RearmedOneShot", name: str) -> str:
    who = f"{found.run} had used it up" if found.run is not None else "a mark alone said that it was used up"
    mark = (
        f"its mark was taken out of {found.file}"
        if found.unmarked
        else f"no mark was taken out of {found.file}"
    )
    where = "again" if found.still_marked_in is None else "in the database"
    return f"{name} is armed {where}: {who}; {mark}"


def _way_out(found: "RearmedOneShot") -> str:
    place = found.still_marked_in
    if place == found.file:
        return f"its mark is still in {place} and holds it back: delete on.disarmed there, or run this again"
    return f"its mark was written into {place} and holds it back there: delete on.disarmed in it"


TriggerName = Annotated[
    str, typer.Argument(metavar="ID", help="The trigger's id, as `status` and `triggers` show it.")
]


def close(trigger: TriggerName, reason: Reason = None, as_json: AsJson = False) -> None:
    """Let a trigger start again whose breaker is open; what was counted of it is forgotten."""
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import control

    with Installation.here() as here:
        found = control.close_breaker(here, trigger, reason=reason)
    if as_json:
        print_json({"trigger": trigger, "changed": found is not None and found.is_open, "was": found})
        return
    if found is None:
        what = "was not held back: its last run did not fail"
    elif not found.is_open:
        what = f"was not held back; {count_of(found.failures, 'failure')} ({found.reason}) forgotten"
    else:
        what = f"was held back since {cell(found.opened_at)} ({found.reason}) and starts again"
    out.print(plain(f"{trigger} {what}"))


def next_instants(
    name: EntryName,
    number: Annotated[int, typer.Option("-n", "--number", min=1, max=1000, help="How many instants.")] = 5,
    as_json: AsJson = False,
) -> None:
    """Show when a schedule is due next, in its zone and in UTC, with what clocks do between."""
    from pidispatch.app import triggers as reading
    from pidispatch.app.installation import Installation

    with Installation.here() as here:
        found = reading.standing(here)
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
    elif not instants:
        out.print("nothing is due in the next 50 years")
    else:
        _print_instants(instants, zone)
    raise typer.Exit(2 if found.problems else 0)


def _print_instants(instants: "Sequence[Coming]", zone: str) -> None:
    heading = (f"in {zone}", "offset", "in UTC", "clock")
    print_table(
        heading,
        [
            (f"{each.local:%a %Y-%m-%d %H:%M:%S}", f"{each.local:%z}", each.at, clock_note(each))
            for each in instants
        ],
    )
