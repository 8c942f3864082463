"""Options that several commands share."""

from typing import Annotated

import typer

LONGEST_REASON = 500


def _printable(text: str | None) -> str | None:
    if text is None or (text.isprintable() and 0 < len(text) <= LONGEST_REASON):
        return text
    raise typer.BadParameter(f"want 1 to {LONGEST_REASON} printable characters")


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or its number.")
]
Reason = Annotated[str | None, typer.Option(callback=_printable, help="Why, for the audit log.")]
