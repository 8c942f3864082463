"""Take the bytes of a task from the command line, a file or standard input."""

import os
import sys
from pathlib import Path
from typing import BinaryIO

import typer

MOST_BYTES = 64 * 1024 * 1024
STANDARD_INPUT = "-"


def task_bytes(text: str | None, file: str | None) -> bytes:
    """Exactly one of them. Raises BadParameter, which ends the command with exit code 2."""
    if (text is None) == (file is None):
        raise typer.BadParameter("give exactly one of --task and --task-file")
    task = os.fsencode(text) if text is not None else _content(file or "")
    if not task.strip():
        raise typer.BadParameter("the task is empty")
    return task


def _content(file: str) -> bytes:
    if file == STANDARD_INPUT:
        return _bounded(_stdin(), "standard input")
    try:
        with Path(file).open("rb") as stream:
            return _bounded(stream, repr(file))
    except (OSError, ValueError) as error:
        problem = error.strerror if isinstance(error, OSError) else str(error)
        raise typer.BadParameter(f"the task file {file!r} cannot be read: {problem}") from error


def _stdin() -> BinaryIO:
    if sys.stdin is None:  # closed by who started us
        raise typer.BadParameter("there is no standard input to read the task from")
    return sys.stdin.buffer


def _bounded(stream: BinaryIO, name: str) -> bytes:
    content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise typer.BadParameter(
            f"{name} holds more than {MOST_BYTES // 1024 // 1024} MiB; put the material into the folder and name it in the task"
        )
    return content
