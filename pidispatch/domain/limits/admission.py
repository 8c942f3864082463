"""Name what the gate found of a waiting run, and what came of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pidispatch.domain.limits.policy import Basis
from pidispatch.domain.limits.windows import Cap
from pidispatch.domain.runs.ask import Terms
from pidispatch.domain.runs.run import Claim

Facts = dict[str, Any]
"""The gates a run passed and the numbers they saw, as JSON; read back by `pidispatch explain`."""


@dataclass(frozen=True, slots=True)
class Ready:
    """What the cheap checks found for one waiting run: what is in force, the folder's identity, its limits.

    `mutex` is the scope key of the folder by host, device and inode; None for runs without a folder. `within` are those of
    the directories it lies in, and `owner` is its user. `concurrent`
    bounds the runs at a time of a scope, `capacity` those of this host. `basis` are the operator's files that the limits were read from.
    """

    terms: Terms
    image_id: str
    engine_id: str
    mutex: str | None
    caps: tuple[Cap, ...]
    capacity: int
    concurrent: Mapping[str, int]
    project: str | None
    facts: Facts
    basis: Sequence[Basis] = ()
    within: Sequence[str] = ()
    owner: int | None = None


@dataclass(frozen=True, slots=True)
class Admitted:
    claim: Claim


@dataclass(frozen=True, slots=True)
class Deferred:
    """Not now. `until` is when it is due again, where that is known."""

    cause: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    reason: str
    why: str | None


@dataclass(frozen=True, slots=True)
class Passed:
    """Somebody else changed the run since it was looked at."""


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The host is full; the run stays as it was."""


Answer = Admitted | Deferred | Refused | Passed | NoRoom
