"""The table of commands. Each lives in a module of its own, which is imported when that command is given."""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from pidispatch import __version__
from pidispatch.entrypoints.cli import manual

# Each command: its module, and the function or group in it. Its help is in `manual`.
COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": ("setup", "up"),
    "worker": ("setup", "worker"),
    "demo": ("demo", "demo"),
    "run": ("run", "run"),
    "runs": ("runs", "runs"),
    "show": ("runs", "show"),
    "logs": ("runs", "logs"),
    "explain": ("explain", "explain"),
    "status": ("status", "status"),
    "budget": ("money", "budget"),
    "prices": ("money", "prices"),
    "pause": ("control", "pause"),
    "resume": ("control", "resume"),
    "cancel": ("control", "cancel"),
    "requeue": ("control", "requeue"),
    "grant": ("control", "grant"),
    "forget-host": ("control", "forget_host"),
    "doctor": ("setup", "doctor"),
    "config": ("setup", "config"),
    "check": ("files", "check"),
    "set": ("files", "set_key"),
    "unset": ("files", "unset_key"),
    "db": ("db", "db"),
    "image": ("setup", "image"),
    "egress": ("egress", "egress"),
    "triggers": ("triggers", "triggers"),
}
LOGS_NOTHING = {"runs", "show"}  # they read rows alone, and load no module that logs


class Commands(TyperGroup):
    """Lists the commands by the table alone, so that `--help` and a shell's completion import none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update({name: TyperCommand(name, help=manual.line(name)) for name in COMMANDS})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is given, in place of its line in the list."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load(name), rest


def load(name: str) -> Any:
    """Import the command of this name, or group of commands, as click runs it."""
    module, attribute = COMMANDS[name]
    found = getattr(import_module(f"pidispatch.entrypoints.cli.{module}"), attribute)
    alone = typer.Typer(callback=start, add_completion=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name)
    else:
        alone.command(name)(found)
    manual.tell(alone)
    group: Any = typer.main.get_command(alone)
    return group.commands[name]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"pidispatch {__version__}")
        raise typer.Exit


def start(
    context: typer.Context,
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    if context.invoked_subcommand in LOGS_NOTHING:
        return
    from pidispatch.app.logs import log_nothing

    log_nothing()


cli = typer.Typer(
    name="pidispatch",
    cls=Commands,
    callback=start,
    help=manual.text(""),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
