"""`triggers next`: when a schedule is due."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import out, print_json, print_table
from pidispatch.entrypoints.cli.triggerdocument import say_problems
from pidispatch.entrypoints.cli.triggershow import TriggerName
from pidispatch.entrypoints.cli.triggerwording import clock_note

if TYPE_CHECKING:
    from pidispatch.domain.schedules.upcoming import Coming


def next_instants(
    name: TriggerName,
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
