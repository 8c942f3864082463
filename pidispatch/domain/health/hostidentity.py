"""Tell one machine from another that goes by the same name."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Identity:
    """Who stands behind a host's name: its Docker engine, and its place, which is a machine's boot and a run directory.

    `engine_id` is None while the engine has not answered.
    """

    engine_id: str | None
    place: str

    def differs(self, other: "Identity") -> bool:
        """An engine that is not known yet tells nothing. A copied disk has the same engine, but no copy of a boot."""
        known = self.engine_id is not None and other.engine_id is not None
        return self.place != other.place or (known and self.engine_id != other.engine_id)

    def __str__(self) -> str:
        return f"engine {(self.engine_id or 'unknown')[:12]}, place {self.place}"


@dataclass(frozen=True, slots=True)
class Contender:
    """A live worker of another machine, or of another installation on this one, under this host's name.

    `earlier`: it registered before the worker that asks. `heard` is how many seconds ago it gave a sign of life.
    """

    worker: str
    identity: Identity
    earlier: bool
    heard: float


def shares_an_engine(mine: Identity, others: Sequence[Contender]) -> bool:
    """Whether what an engine of this id says may be said of another's boxes."""
    return any(other.identity.engine_id in {None, mine.engine_id} for other in others)
