"""`triggers zone`: show or change the zone of the schedules that name none."""

from typing import TYPE_CHECKING, Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import cell, out, plain, print_json

if TYPE_CHECKING:
    from pidispatch.app.triggerzone import HostZone

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
        out.print(plain(_told(found)))


def _told(found: "HostZone") -> str:
    if found.zone is None:
        return f"{found.host}: not settled; the first worker that plans settles it, here it would be {found.clock}"
    since = f"settled {cell(found.settled_at)} by {found.settled_by}"
    before = f", before it was {found.before}" if found.before else ""
    other = f"; the clock here is {found.clock}" if found.clock != found.zone else ""
    return f"{found.host}: {found.zone}, {since}{before}{other}"
