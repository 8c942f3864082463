"""`budget`: what every window of spend holds, and when it is fresh again."""

from typing import TYPE_CHECKING

from pidispatch.entrypoints.cli.options import AsJson
from pidispatch.entrypoints.cli.output import print_json, print_table
from pidispatch.entrypoints.cli.wording import amount, window_name

if TYPE_CHECKING:
    from pidispatch.app.verbs.queue import BudgetWindow


def budget(as_json: AsJson = False) -> None:
    from pidispatch.app.installation import Installation
    from pidispatch.app.verbs import queue

    with Installation.here() as here:
        found = queue.budget(here)
    if as_json:
        print_json(found)
        return
    print_table(
        ("window", "used", "cap", "of it held", "state", "resets at", "held by"),
        [
            (
                window_name(window.name, window.unit, window.period),
                _used(window),
                amount(window.unit, window.cap),
                amount(window.unit, window.held),
                window.state,
                window.resets_at,
                _holders(window),
            )
            for window in found.windows
        ],
    )


def _used(window: "BudgetWindow") -> str:
    used = amount(window.unit, window.used)
    return f"at most {used}" if window.assumed else used


def _holders(window: "BudgetWindow") -> str:
    more = window.holders - len(window.held_by)
    return ", ".join(window.held_by) + (f" and {more:,} more" if more else "")
