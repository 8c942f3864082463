"""Hold runs back and let them go on: the operator's switch."""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from pidispatch.app.actor import actor
from pidispatch.app.databases import opened
from pidispatch.app.policy import FilePolicies
from pidispatch.app.receipts import read_after
from pidispatch.app.ringing import ring
from pidispatch.config import Settings
from pidispatch.domain.limits.policy import Policy
from pidispatch.domain.limits.windows import EVERYTHING, PROJECT
from pidispatch.domain.runs.names import folder_scope
from pidispatch.errors import ConfigurationRefused, PidispatchError
from pidispatch.queue.bells import RedisBell
from pidispatch.store.admission import pauses
from pidispatch.store.admission.pauses import Pause
from pidispatch.store.database import Database
from pidispatch.store.keptfiles import KeptFilesToRead

__all__ = ["NoSuchScope", "Pause", "Resumed", "pause", "resume"]


class NoSuchScope(PidispatchError):
    """Nothing answers to what was asked to be paused: a slip of the pen would hold nothing back."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """`rung` is False when Redis did not answer: workers find the runs by themselves, within seconds."""

    pause: Pause
    rung: bool


def pause(settings: Settings, scope: str, *, reason: str | None, stops_calls: bool = False) -> Pause:
    """`scope` is `*`, a folder, `project:ID` or a key as `status` shows it. Raises NoSuchScope and as `opened`.

    With `stops_calls` its runs may make no model call either, within a second.
    """
    with opened(settings) as database:
        key = _key_of(database, settings, scope)
        return pauses.pause(database, key, actor=actor(settings), reason=reason, stops_calls=stops_calls)


def resume(settings: Settings, scope: str, *, reason: str | None) -> Resumed:
    """Raises as `pause`. The row is the truth: bells only make it quick."""
    with opened(settings) as database:
        key = _key_of(database, settings, scope)
        made = pauses.resume(database, key, actor=actor(settings), reason=reason)
        return Resumed(made, rung=_ring(database, settings))


def _key_of(database: Database, settings: Settings, scope: str) -> str:
    if scope == EVERYTHING:
        return scope
    if scope.startswith(PROJECT) and scope.removeprefix(PROJECT) in _projects(database, settings):
        return scope
    key = folder_scope(scope)
    if scope.strip() and (Path(scope).is_dir() or pauses.known(database, key)):
        return key
    if scope.isprintable() and pauses.known(database, scope):
        return scope
    raise NoSuchScope(f"{scope!r} is no folder, and no run was ever asked for in it")


def _projects(database: Database, settings: Settings) -> Collection[str]:
    """A switch must work whatever is in the files: of what cannot be read, there are none."""
    try:
        policy = FilePolicies(settings, KeptFilesToRead(database, host=settings.worker_name)).current()
    except ConfigurationRefused:
        return ()
    return policy.projects.values() if isinstance(policy, Policy) else ()


def _ring(database: Database, settings: Settings) -> bool:
    due, _ = read_after(lambda: pauses.bells_after_resume(database))
    if due is None:
        return False

    def ring_each(bell: RedisBell) -> None:
        for host, bells in due:
            bell.ring_start(host, bells)

    return ring(settings, ring_each)
