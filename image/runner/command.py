"""Say how pi is started: its command line, its environment, what is given to it in files."""

# ruff: noqa: PTH116, PTH118, PTH120, PTH123
# pathlib costs milliseconds to import.

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from .settings import Settings

_MOST_FORWARDED = 1024 * 1024
_TASTE = frozenset(("LANG", "LC_ALL", "TERM", "TZ"))
_KEPT_ENV = (
    *("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TZ", "PI_MAX_TURNS", "PI_MAX_TOKENS"),
    *("PI_CODING_AGENT_DIR", "PI_OFFLINE", "PI_TELEMETRY", "PI_SKIP_VERSION_CHECK"),
)

_DOOR = "http://127.0.0.1:4180"
# Other hosts are reached through the door alone; what may pass is the gateway's to say.
_PROXY_ENV = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _DOOR),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "localhost,127.0.0.1,::1"),
    "NODE_USE_ENV_PROXY": "1",
}


def pi_command(
    pi: tuple[str, ...],
    settings: Settings,
    guard: str,
    session: str | None,
    *,
    prompts: Sequence[str] = (),
    skills: Sequence[str] = (),
) -> list[str]:
    """`session` is a file that exists, or None: then nothing is kept. `prompts` are files, `skills` directories."""
    command = [*pi, "--mode", "rpc", "-ne", "-e", guard, "--no-approve"]
    command += ["--provider", settings.provider, "--model", settings.model]
    for prompt in prompts:
        command += ["--append-system-prompt", prompt]
    for folder in skills:
        command += ["--skill", folder]
    command += ["--no-session"] if session is None else ["--session", session]
    if settings.exclude_tools:
        command += ["-xt", ",".join(settings.exclude_tools)]
    return command


def pi_env(env: Mapping[str, str], cache: str | None, forwarded: Mapping[str, str]) -> dict[str, str]:
    """Few names: the agent's shell inherits them. `forwarded` replaces none that decides what pi does."""
    kept = {name: env[name] for name in _KEPT_ENV if name in env} | _PROXY_ENV
    given = {name: value for name, value in forwarded.items() if name not in kept or name in _TASTE}
    return {**kept, **given, **({"NODE_COMPILE_CACHE": cache} if cache else {})}


def read_forwarded(job: str) -> dict[str, str]:
    """The variables that the operator hands to the agent; none without the file. Raises OSError, ValueError."""
    try:
        with open(f"{job}/env.json", "rb") as file:
            found = json.loads(file.read(_MOST_FORWARDED))
    except FileNotFoundError:
        return {}
    return {str(name): str(value) for name, value in dict(found).items()}


def read_prompt(job: str) -> str:
    with open(f"{job}/prompt.md", "rb") as file:
        return file.read().decode("utf-8", errors="replace")


def session_size(session: str) -> int | None:
    """None: no session file was given. An empty one is a fresh session."""
    try:
        return os.stat(session).st_size
    except OSError:
        return None


def pi_version(command: tuple[str, ...]) -> str | None:
    """The version in the package.json above pi's bundle; None for a pi that lies elsewhere."""
    manifest = os.path.join(os.path.dirname(command[-1]), "../../package.json")
    try:
        with open(manifest, "rb") as file:
            version = json.loads(file.read(65536)).get("version")
    except (OSError, ValueError, AttributeError):
        return None
    return version if isinstance(version, str) else None
