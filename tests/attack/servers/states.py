"""The states of servers, and the commands that meet them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pidispatch.entrypoints.cli.commands import COMMANDS, load

# What each command is given. Those that need no server are here too: none may end in a traceback.
ARGUMENTS = {
    "budget": ("budget",),
    "cancel": ("cancel", "--all"),
    "check": ("check", "triggers.json"),
    "config": ("config",),
    "db check": ("db", "check"),
    "db psql": ("db", "psql", "-c", "select 1"),
    "db upgrade": ("db", "upgrade"),
    "db url": ("db", "url"),
    "doctor": ("doctor",),
    "egress": ("egress",),
    "egress check": ("egress", "check", "example.org"),
    "explain": ("explain", "x"),
    "forget-host": ("forget-host", "h9", "--yes"),
    "grant": ("grant", "x", "+1"),
    "image check": ("image", "check"),
    "logs": ("logs", "x"),
    "pause": ("pause",),
    "prices": ("prices",),
    "requeue": ("requeue", "x"),
    "resume": ("resume",),
    "run": ("run", "{folder}", "--task", "x"),
    "runs": ("runs",),
    "set": ("set", "PI_DAILY_CAP", "3"),
    "show": ("show", "x"),
    "status": ("status",),
    "triggers": ("triggers",),
    "triggers close": ("triggers", "close", "x"),
    "triggers next": ("triggers", "next", "x"),
    "triggers rearm": ("triggers", "rearm", "once"),
    "triggers zone": ("triggers", "zone", "Asia/Tokyo"),
    "triggers show": ("triggers", "show", "once"),
    "triggers test": ("triggers", "test", "--event", "event.json"),
    "unset": ("unset", "PI_DAILY_CAP"),
    "up": ("up",),
    "worker": ("worker",),
}
LEFT_OUT = {
    "demo": "it makes servers of its own",
    "image build": "it meets no server, and takes minutes",
}
# They become, or start, processes once Postgres is well: what those say of Redis is tried in test_redis.py.
STARTERS = ("up", "worker")
# They need the database to do what they are for; the others read files, or what they can.
OF_THE_DATABASE = (
    "budget", "cancel", "db check", "db upgrade", "explain", "forget-host", "grant", "logs", "pause", "requeue", "resume",
    "run", "runs", "show", "status", "triggers close", "triggers rearm", "triggers zone", "up", "worker",
)  # fmt: skip
SAMPLE = ("runs", "run", "pause", "db check", "doctor")


def every_command() -> set[str]:
    """The names of all commands there are, as a person types them."""
    return set(_names({name: load(name) for name in COMMANDS}, ""))


def _names(commands: Mapping[str, Any], before: str) -> list[str]:
    found = []
    for name, each in commands.items():
        inner = hasattr(each, "commands")
        if not inner or each.invoke_without_command:
            found.append(f"{before}{name}")
        if inner:
            found += _names(each.commands, f"{before}{name} ")
    return found


@dataclass(frozen=True)
class State:
    """A server in a state: its address, and words of the sentence that is told of it."""

    url: str
    words: str
