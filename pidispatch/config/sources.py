"""Merge the environment with a `.env` file, remembering where each text came from."""

import io
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from dotenv.parser import Binding, parse_stream

from pidispatch.errors import ConfigurationRefused

DOTENV_LIMIT = 1024 * 1024


class Source(StrEnum):
    DEFAULT = "default"
    DOTENV = ".env"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, repr=False)
class Given:
    """A text as the operator gave it; it may be a secret, so it has no repr."""

    text: str
    source: Source


def read_sources(environ: Mapping[str, str], dotenv: Path | None) -> tuple[dict[str, Given], list[str]]:
    """Every name that is set, the environment winning even with an empty text, and the faults of the file."""
    file_texts, problems = read_dotenv(dotenv) if dotenv is not None else ({}, [])
    given = {name: Given(text, Source.DOTENV) for name, text in file_texts.items()}
    given |= {name: Given(text, Source.ENVIRONMENT) for name, text in environ.items()}
    return given, problems


def effective_environment(environ: Mapping[str, str], dotenv: Path | None) -> dict[str, str]:
    """The environment with `.env` beneath it. Raises ConfigurationRefused when the file has a fault."""
    given, problems = read_sources(environ, dotenv)
    if problems:
        raise ConfigurationRefused(problems)
    return {name: each.text for name, each in given.items()}


def read_dotenv(path: Path) -> tuple[dict[str, str], list[str]]:
    """The names of a `.env` file and its faults; a missing file has neither.

    Quotes, comments and `export` are python-dotenv's; `${NAME}` is left as it is, so a password may hold it.
    No fault shows the text of its line, which may be a secret.
    """
    try:
        content = _content(path)
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [f"{path}: cannot be read: {error.strerror or error}"]
    if len(content) > DOTENV_LIMIT:
        return {}, [f"{path}: is larger than {DOTENV_LIMIT} bytes; want a file of NAME=value lines"]
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        return {}, [f"{path}:{line}: is not UTF-8; want a file of NAME=value lines in UTF-8"]
    return _bindings(path, text)


def _content(path: Path) -> bytes:
    # Non-blocking, since opening a named pipe would wait for a writer for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(DOTENV_LIMIT + 1)
    finally:
        os.close(descriptor)  # a file object of a directory could not be made, and would not close it


def _bindings(path: Path, text: str) -> tuple[dict[str, str], list[str]]:
    texts: dict[str, str] = {}
    problems: list[str] = []
    for binding in parse_stream(io.StringIO(text)):
        if problem := _fault(binding):
            problems.append(f"{path}:{_line(binding)}: {problem}")
        elif binding.key is not None and binding.value is not None:
            texts[binding.key] = binding.value
    return texts, problems


def _line(binding: Binding) -> int:
    """The line of the first character that is not blank: python-dotenv counts from the blank lines above."""
    text = binding.original.string
    blank = text[: len(text) - len(text.lstrip())]
    return binding.original.line + blank.count("\n")


def _fault(binding: Binding) -> str | None:
    if binding.error:
        return "cannot be read; want NAME=value, with any quote closed"
    if binding.key is None:
        return None
    if binding.value is None and binding.key.startswith(("PI_", "PIDISPATCH_")):
        return f"{binding.key} has no value; want {binding.key}=value"
    if "\0" in binding.key or (binding.value is not None and "\0" in binding.value):
        return "holds a NUL character; want NAME=value"
    return None
