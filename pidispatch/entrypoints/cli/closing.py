"""`triggers close`: let a trigger start again that was held back after failures."""

from typing import Annotated

import typer

from pidispatch.entrypoints.cli.options import AsJson, Reason
from pidispatch.entrypoints.cli.output import cell, out, plain, print_json
from pidispatch.entrypoints.cli.wording import count_of

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
