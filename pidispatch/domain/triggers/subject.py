"""Name what a run is about, so that two who ask for the same are told of one run."""

import hashlib
from dataclasses import dataclass

from pidispatch.domain.forges.forge import Forge
from pidispatch.domain.triggers.event import Item

SUBJECT = "subject:"


@dataclass(frozen=True, slots=True)
class RunSubject:
    """A scope, an item in it, and the lane of the run: what one run at a time is for."""

    scope: str
    item: str
    lane: str

    @property
    def key(self) -> str:
        parts = (self.scope, self.item, self.lane)
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]

    @property
    def mutex(self) -> str:
        """The scope whose single slot lets one run of this subject go on at a time."""
        return SUBJECT + self.key


def forge_subject(
    forge: Forge,
    repo: str,
    number: int,
    item: Item,
    lane: str,
    *,
    closed: bool = False,
) -> RunSubject:
    """What is done on a close is another matter than the same flow before it.

    Forges spell a repository's name as people do, but hold two spellings for one.
    """
    apart = item is Item.PULL_REQUEST and forge.numbers_apart
    words = f"{'closed:' if closed else ''}{lane}"
    return RunSubject(f"{forge.name}:{repo.lower()}", f"{'!' if apart else '#'}{number}", words)


def folder_subject(scope: str, lane: str, task: bytes, asked: tuple[object, ...] = ()) -> RunSubject:
    """In a folder, another task is another matter: the newest must not take the place of one that waits.

    `asked` holds what somebody wants of this very run, such as a model: that no other run can answer for.
    """
    told = task if all(each is None for each in asked) else task + b"\0" + repr(asked).encode()
    return RunSubject(scope, f"task:{hashlib.sha256(told).hexdigest()[:16]}", lane)
