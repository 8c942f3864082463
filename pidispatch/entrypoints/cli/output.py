"""What every command prints with, and the options that many have."""

import dataclasses
import io
import json
import os
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any

import typer
from rich.console import Console

from pidispatch.errors import ConfigurationRefused, PidispatchError

LONGEST_REASON = 500


def _printable(text: str | None) -> str | None:
    if text is None or (text.isprintable() and 0 < len(text) <= LONGEST_REASON):
        return text
    raise typer.BadParameter(f"want 1 to {LONGEST_REASON} printable characters")


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
RunName = Annotated[
    str, typer.Argument(metavar="RUN", help="A run's id, the beginning of one, or its number.")
]
EntryName = Annotated[
    str,
    typer.Argument(metavar="ID", help="An entry's id, or the beginning of the one that `triggers` shows."),
]
Reason = Annotated[str | None, typer.Option(callback=_printable, help="Why, for the audit log.")]


READER_LEFT = 128 + 13  # as a shell tells of SIGPIPE


class Paper(Console):
    """A console whose reader may leave, as `head` does: then the command ends without a word."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.file.fileno())  # or the interpreter would try again at its end
        os.close(nowhere)
        raise SystemExit(READER_LEFT)


out = Paper(highlight=False, soft_wrap=True, markup=False, emoji=False)
err = Paper(stderr=True, highlight=False, soft_wrap=True, markup=False, emoji=False)

UNBOUNDED = 10_000  # columns where no terminal sets a width: a program that reads a table gets whole lines


def plain(text: object) -> str:
    """The text with every control character visible: an escape sequence in a name must not move a cursor."""
    return "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in str(text))


def cell(value: object) -> str:
    """A value on one line of a table: nothing for None, times to the second in UTC."""
    match value:
        case None:
            return ""
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%SZ")
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case _:
            return plain(value).replace("\n", "\\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns with a heading each. On a terminal long texts are folded; a program gets one line for each row."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, heading in enumerate(headings):
        column = [row[number] for row in rows if row[number] is not None]
        numeric = bool(column) and all(isinstance(value, int | float) for value in column)
        folds = number > 0 and any(isinstance(value, str) for value in column)
        table.add_column(heading, justify="right" if numeric else "left", no_wrap=not folds, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    if out.is_terminal:
        out.print(table, soft_wrap=False)
        return
    paper = Console(file=io.StringIO(), width=UNBOUNDED, color_system=None)
    with paper.capture() as lines:
        paper.print(table)
    for line in lines.get().splitlines():
        out.print(line.rstrip())


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """One `name  value` a line; those without a value are left out."""
    shown = [(name, cell(value)) for name, value in facts if cell(value)]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        out.print(f"{name:<{width}}  {value}")


def print_json(value: Any) -> None:
    """One JSON document on standard output: frozen values are objects, times ISO 8601 in UTC."""
    try:
        sys.stdout.write(json.dumps(value, default=_json, ensure_ascii=True, indent=2) + "\n")
    except BrokenPipeError:
        out.on_broken_pipe()


def _json(value: object) -> object:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case date():
            return value.isoformat()
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        case _:
            return str(value)


def say_unread(problem: str | None, public_id: str | None = None) -> None:
    """After a receipt whose rest could not be read: what is stored is stored, so the command has done its work."""
    if problem is not None:
        later = f"; pidispatch show {public_id}" if public_id else ""
        err.print(plain(f"how it stands could not be read: {problem}{later}"))


def complain(error: PidispatchError) -> None:
    """Say what is wrong on standard error, one problem a line."""
    problems = error.problems if isinstance(error, ConfigurationRefused) else (str(error),)
    for problem in problems:
        err.print(f"pidispatch: {plain(problem)}")
