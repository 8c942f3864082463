"""Options that several commands share."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="One JSON document for programs.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or its number.")
]
