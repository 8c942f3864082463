"""`run --trigger`: start a schedule by hand."""

from collections.abc import Mapping

import typer

BELONGS = "the entry of the triggers file says what the run does"


def refuse_beside_trigger(given: Mapping[str, object]) -> None:
    """Raises BadParameter for what the entry itself says. `given` maps options to what was given, or to None where nothing was."""
    wrong = [name for name, value in given.items() if value is not None]
    if wrong:
        raise typer.BadParameter(f"--trigger does not go with {', '.join(wrong)}: {BELONGS}")
