"""Say whether the database's schema is this version's. What changes a schema is in `migrating`."""

import re
from dataclasses import dataclass
from enum import StrEnum

from pidispatch import shipped
from pidispatch.errors import SchemaDiffers
from pidispatch.store import versions
from pidispatch.store.database import Database
from pidispatch.store.tables import METADATA

MIGRATION = re.compile(r"([0-9]{4})_[a-z0-9_]+\.py")


class Fit(StrEnum):
    OK = "ok"
    BEHIND = "behind"
    AHEAD = "ahead"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The revision found (None: an empty database), the one this version needs, and how they compare.

    `missing` are this version's tables that a database at its revision lacks: then it is damaged.
    """

    found: str | None
    wanted: str
    fit: Fit
    missing: tuple[str, ...] = ()


def known_revisions() -> frozenset[str]:
    """Read this version's revisions from the file names of its migrations: none of them is opened.

    Raises RuntimeError where there are none, FileNotFoundError where the folder is missing.
    """
    names = (path.name for path in (shipped.folder("migrations") / "versions").iterdir())
    known = frozenset(match[1] for match in map(MIGRATION.fullmatch, names) if match)
    if not known:
        raise RuntimeError("this installation of pidispatch has no migrations")
    return known


def state(database: Database) -> SchemaState:
    """Compare the database's revision with this version's. A revision we do not know is a newer one's."""
    known = known_revisions()
    wanted = max(known)
    with database.transaction() as connection:
        at = versions.revisions(connection, known)
        found = " and ".join(at) or None
        if found == wanted:
            lacks = versions.missing(connection, list(METADATA.tables))
            return SchemaState(found, wanted, Fit.DAMAGED if lacks else Fit.OK, lacks)
    ahead = found is not None and found not in known
    return SchemaState(found, wanted, Fit.AHEAD if ahead else Fit.BEHIND)


def require(database: Database) -> None:
    """Raise SchemaDiffers unless the schema is exactly this version's."""
    now = state(database)
    if now.fit is not Fit.OK:
        raise differs(now)


def differs(now: SchemaState) -> SchemaDiffers:
    return SchemaDiffers(found=now.found, wanted=now.wanted, ahead=now.fit is Fit.AHEAD, missing=now.missing)
