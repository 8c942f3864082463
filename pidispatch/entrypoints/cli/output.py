"""Print for people and for programs; nothing that came from outside reaches a terminal with control characters."""

import json
import sys
from typing import Any

from rich.console import Console

from pidispatch.errors import ConfigurationRefused, PidispatchError

out = Console(highlight=False, soft_wrap=True, markup=False)
err = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)


def plain(text: object) -> str:
    """The text with every control character visible: an escape sequence in a name must not move a cursor."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in str(text))


def print_json(value: Any) -> None:
    """One JSON document on standard output; times are ISO 8601."""
    sys.stdout.write(json.dumps(value, default=str, ensure_ascii=True, indent=2) + "\n")


def complain(error: PidispatchError) -> None:
    """Say what is wrong on standard error, one problem a line."""
    problems = error.problems if isinstance(error, ConfigurationRefused) else (str(error),)
    for problem in problems:
        err.print(f"pidispatch: {plain(problem)}")
