"""Parse the box's environment strictly; a value that is not exactly right ends the run before anything is spent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

KNOWN_TOOLS = ("read", "bash", "powershell", "edit", "write", "grep", "find", "ls")

_NUMBER = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_SAFE = 2**53 - 1


class Settings(NamedTuple):
    """`deadline` is in seconds, `chains`: what is asked for in the outbox may become a run. (Not a dataclass: importing those costs 5 ms.)"""

    provider: str
    model: str
    max_turns: int
    max_tokens: int | None
    job_id: str
    attempt: int
    deadline: int
    gate: str
    flow: str | None
    exclude_tools: tuple[str, ...]
    chains: bool


class ConfigError(Exception):
    """A setting is missing or not exactly right; says which."""


def parse(env: Mapping[str, str]) -> Settings:
    """Raises ConfigError."""
    return Settings(
        provider=_word(env, "PI_PROVIDER"),
        model=_word(env, "PI_MODEL"),
        max_turns=_number(env, "PI_MAX_TURNS"),
        max_tokens=_number(env, "PI_MAX_TOKENS") if env.get("PI_MAX_TOKENS") else None,
        job_id=_word(env, "PI_JOB_ID"),
        attempt=_number(env, "PI_DISPATCH_ATTEMPT"),
        deadline=_number(env, "PI_DISPATCH_DEADLINE"),
        gate=_path(env, "PI_DISPATCH_GATE", "/gate/s"),
        flow=env.get("PI_FLOW") or None,
        exclude_tools=_tools(env.get("PI_EXCLUDE_TOOLS")),
        chains=env.get("PI_DISPATCH_CHAINS") == "1",
    )


def _word(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "")
    if not value:
        raise ConfigError(f"{name} is not set")
    # A leading dash would be read by pi as an option.
    if value.startswith("-") or not value.isprintable() or value != value.strip():
        raise ConfigError(f"{name} is not a name")
    return value


def _number(env: Mapping[str, str], name: str) -> int:
    value = env.get(name, "")
    if not value:
        raise ConfigError(f"{name} is not set")
    if not _NUMBER.fullmatch(value) or int(value) > _SAFE:
        raise ConfigError(f"{name} is not a positive whole number")
    return int(value)


def _path(env: Mapping[str, str], name: str, default: str) -> str:
    value = env.get(name) or default
    if not value.startswith("/"):
        raise ConfigError(f"{name} is not an absolute path")
    return value


def _tools(value: str | None) -> tuple[str, ...]:
    """A comma list taken as written: pi ignores unknown names silently, so they are refused here."""
    if not value:
        return ()
    names = tuple(value.split(","))
    unknown = [name for name in names if name not in KNOWN_TOOLS]
    if unknown:
        raise ConfigError(f"PI_EXCLUDE_TOOLS names no tool of pi: {unknown[0]!r}")
    return names
