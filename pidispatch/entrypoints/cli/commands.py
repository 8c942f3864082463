"""The table of commands. Each lives in a module of its own, which is imported when that command is given."""

from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from pidispatch import __version__

# Name: module, the function or group in it, and its line of help.
# fmt: off
COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "up": ("up", "up", "Start services, migrations, image, gateway and worker in the foreground; Ctrl-C stops them."),
    "worker": ("up", "worker", "Start a worker (`dramatiq pidispatch.actors`); at SIGTERM it ends within 2 s, and its runs go on."),
    "demo": ("demo", "demo", "Run pi once in a real box on a sample repository and show the diff, the record and the SQL."),
    "run": ("run", "run", "Queue one run of the agent in FOLDER, or the run of a schedule."),
    "runs": ("runs", "runs", "List runs, newest first."),
    "show": ("runs", "show", "Show everything that is known of one run."),
    "logs": ("logs", "logs", "Print the output of a run's container, without control characters."),
    "explain": ("explain", "explain", "Say of one run which gates it passed, which stopped it, and with which numbers."),
    "status": ("status", "status", "Show the queue: runs by state, workers, hosts, pauses, what today may still start, and what is red."),
    "budget": ("budget", "budget", "Show each limit on spend: used, cap, what is only held and by which runs, and when it resets (UTC)."),
    "prices": ("prices", "prices", "Say what a model costs now, in dollars for a million tokens, and from where: exit code 1 when one has no price."),
    "pause": ("pausing", "pause", "Start nothing more, everywhere or in one scope; runs that have started go on, with --now without model calls."),
    "resume": ("pausing", "resume", "Let runs start again."),
    "cancel": ("cancelling", "cancel", "End a run, in whatever state it is; exit code 0 when its container is proven gone and all of it settled."),
    "requeue": ("requeueing", "requeue", "Queue a run that has ended once more, as a new run: every gate and every limit holds again."),
    "grant": ("granting", "grant", "Let a run that stopped at a cap go on, as a new run with its folder and its session: every gate holds again."),
    "forget-host": ("forgetting", "forget_host", "End every run of a dead host as lost: its slots are free, what may have been spent stays spent."),
    "doctor": ("doctor", "doctor", "Check everything; exit code 0 unless something FAILED, then 1 with the way out of each."),
    "config": ("config", "config", "Show each setting and where it came from; no secret is shown."),
    "check": ("check", "check", "Say whether limits, projects, pauses, settings, triggers and prices are accepted: exit code 0, or 2 with every problem."),
    "set": ("settings", "set_key", "Set a key of the settings overlay; the next run that starts obeys it."),
    "unset": ("settings", "unset_key", "Take a key out of the settings overlay; environment and defaults hold again."),
    "db": ("db", "db", "Upgrade, check and read the database."),
    "image": ("image", "image", "Build and check the job image."),
    "egress": ("egress", "egress", "Which hosts runs may reach."),
    "triggers": ("triggers", "triggers", "What starts runs by itself."),
}
# fmt: on
LOGS_NOTHING = {"runs", "show"}  # they read rows alone, and load no module that logs


class Commands(TyperGroup):
    """Lists the commands by the table alone, so that `--help` and a shell's completion import none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands.update({name: TyperCommand(name, help=row[2]) for name, row in COMMANDS.items()})

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is given, in place of its line in the list."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else load(name), rest


def load(name: str) -> Any:
    """Import the command of this name, or group of commands, as click runs it."""
    module, attribute, line = COMMANDS[name]
    found = getattr(import_module(f"pidispatch.entrypoints.cli.{module}"), attribute)
    alone = typer.Typer(callback=start, add_completion=False)
    if isinstance(found, typer.Typer):
        alone.add_typer(found, name=name, help=line)
    else:
        alone.command(name, help=line)(found)
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
    """Run the pi coding agent on repositories while nobody watches."""
    if context.invoked_subcommand in LOGS_NOTHING:
        return
    from pidispatch.app.logs import log_nothing

    log_nothing()


cli = typer.Typer(
    name="pidispatch",
    cls=Commands,
    callback=start,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
