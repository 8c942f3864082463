"""Make docs/cli.md of the commands and their manual."""

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from pidispatch.entrypoints.cli.commands import cli
from pidispatch.entrypoints.cli.manual import line, text
from scripts.markdown import table

HEAD = """# The command line

This page is made of `pidispatch/entrypoints/cli` by `make docs`; a test compares them. `pidispatch COMMAND --help` says the same.
What commands print, and the documents of `--json`, are shown in [examples](examples.md).
"""
EXIT = "Exit code: "
PAGE_NAME = re.compile(r"docs/([a-z-]+)\.md(#[a-z-]+)?")


def page() -> str:
    commands = list(_commands())
    return "\n".join(
        [HEAD, *_prose(""), *_list(commands), *(part for each in commands for part in _section(*each))]
    )


def _commands() -> Iterator[tuple[str, Any, Any]]:
    """Name, command and context of each, in the order of `--help`; a group before its commands."""
    root: Any = typer.main.get_command(cli)
    yield from _below(root, root.context_class(root, info_name="pidispatch"), ())


def _below(group: Any, context: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any, Any]]:
    for name in group.list_commands(context):
        _, command, _ = group.resolve_command(context, [name])
        inner = command.context_class(command, info_name=name, parent=context)
        yield " ".join((*path, name)), command, inner
        if hasattr(command, "list_commands"):
            yield from _below(command, inner, (*path, name))


def _list(commands: list[tuple[str, Any, Any]]) -> Iterator[str]:
    rows = [(f"[`{name}`](#{name.replace(' ', '-')})", line(name)) for name, _, _ in commands]
    yield from table(("Command", "What it does"), rows)


def _section(name: str, command: Any, context: Any) -> Iterator[str]:
    """Usage, manual, arguments and options."""
    yield f"\n{'##' if ' ' not in name else '###'} {name}\n"
    yield f"```\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n"
    yield from _prose(name)
    given = [each.get_help_record(context) for each in command.get_params(context)]
    rows = [(f"`{shown}`", said) for shown, said in given if shown != "--help"]
    if rows:
        yield from table(("Argument or option", "Meaning"), rows)


def _prose(name: str) -> Iterator[str]:
    for paragraph in text(name).split("\n\n"):
        if paragraph.startswith("$ "):
            yield f"```\n{paragraph}\n```\n"
        else:
            told = (
                paragraph.replace(EXIT, f"**{EXIT.strip()}** ", 1)
                if paragraph.startswith(EXIT)
                else paragraph
            )
            yield f"{PAGE_NAME.sub(_link, told)}\n"


def _link(found: re.Match[str]) -> str:
    name, place = found[1], found[2] or ""
    return f"[{place[1:].replace('-', ' ') or name}]({name}.md{place})"
