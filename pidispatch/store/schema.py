"""Bring the schema to this version, and say whether it is there."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationInfo
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection

from pidispatch import shipped
from pidispatch.errors import SchemaDiffers
from pidispatch.store import versions
from pidispatch.store.database import Database
from pidispatch.store.tables import METADATA

UPGRADE_LOCK = 0x70696469  # two upgrades at once would race; the second waits for this advisory lock
# A revision may rewrite a table of a year, and waits for whoever reads it.
NO_HURRY = (
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL lock_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
Say = Callable[[str], None]


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


def upgrade(database: Database, *, progress: Say = lambda _: None) -> SchemaState:
    """Apply what is missing, in one transaction. Raises SchemaDiffers when the database is ahead, or damaged."""
    before = state(database)
    if before.fit in {Fit.AHEAD, Fit.DAMAGED}:
        raise _differs(before)
    _run(database, lambda config: command.upgrade(config, "head"), progress)
    if before.fit is Fit.BEHIND:
        progress(f"schema: {before.found or 'empty'} -> {before.wanted}")
    return state(database)


def downgrade(database: Database, revision: str, *, progress: Say = lambda _: None) -> None:
    """Go back to `revision` (`base` for nothing). Data in what is dropped is lost."""
    _run(database, lambda config: command.downgrade(config, revision), progress)


def state(database: Database) -> SchemaState:
    """Compare the database's revision with this version's. A revision we do not know is a newer one's."""
    scripts = ScriptDirectory.from_config(_config())
    wanted = scripts.get_current_head()
    if wanted is None:
        raise RuntimeError("this installation of pidispatch has no migrations")
    known = known_revisions(scripts)
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
        raise _differs(now)


def known_revisions(scripts: ScriptDirectory) -> frozenset[str]:
    return frozenset(script.revision for script in scripts.walk_revisions())


def begin_changes(connection: Connection, known: frozenset[str]) -> None:
    """What precedes every change of the schema, in its transaction: only one at a time, and on our own table."""
    for said in NO_HURRY:
        connection.exec_driver_sql(said)
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})")
    versions.adopt(connection, known)


def line_of(step: MigrationInfo) -> str:
    """One applied revision for people, from what Alembic tells of it."""
    here, there = (" and ".join(ids) for ids in (step.source_revision_ids, step.destination_revision_ids))
    script = step.up_revision if step.is_migration and step.is_upgrade else None
    did = f": {script.doc.rstrip('.')}" if isinstance(script, Script) else ""
    return f"schema: {here or 'empty'} -> {there or 'empty'}{did}"


def _differs(now: SchemaState) -> SchemaDiffers:
    return SchemaDiffers(found=now.found, wanted=now.wanted, ahead=now.fit is Fit.AHEAD, missing=now.missing)


def _run(database: Database, step: Callable[[Config], None], progress: Say) -> None:
    config = _config()
    known = known_revisions(ScriptDirectory.from_config(config))
    with database.transaction() as connection:
        begin_changes(connection, known)
        config.attributes["connection"] = connection
        config.attributes["say"] = progress
        step(config)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(shipped.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
