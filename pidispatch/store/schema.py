"""Bring the schema to this version, and say whether it is there."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from pidispatch import shipped
from pidispatch.errors import SchemaDiffers
from pidispatch.store.database import Database

UPGRADE_LOCK = 0x70696469  # two upgrades at once would race; the second waits for this advisory lock


class Fit(StrEnum):
    OK = "ok"
    BEHIND = "behind"
    AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The revision found (None: an empty database), the one this version needs, and how they compare."""

    found: str | None
    wanted: str
    fit: Fit


def upgrade(database: Database, *, progress: Callable[[str], None] = lambda _: None) -> SchemaState:
    """Apply what is missing, in one transaction. Raises SchemaDiffers when the database is ahead."""
    before = state(database)
    if before.fit is Fit.AHEAD:
        raise SchemaDiffers(found=before.found, wanted=before.wanted, ahead=True)
    if before.fit is Fit.OK:
        return before
    _run(database, lambda config: command.upgrade(config, "head"))
    progress(f"schema: {before.found or 'empty'} -> {before.wanted}")
    return state(database)


def downgrade(database: Database, revision: str) -> None:
    """Go back to `revision` (`base` for nothing). Data in what is dropped is lost."""
    _run(database, lambda config: command.downgrade(config, revision))


def state(database: Database) -> SchemaState:
    """Compare the database's revision with this version's. A revision we do not know is a newer one's."""
    scripts = ScriptDirectory.from_config(_config())
    wanted = scripts.get_current_head()
    if wanted is None:
        raise RuntimeError("this installation of pidispatch has no migrations")
    with database.transaction() as connection:
        found = MigrationContext.configure(connection).get_current_revision()
    if found == wanted:
        return SchemaState(found, wanted, Fit.OK)
    known = {script.revision for script in scripts.walk_revisions()}
    ahead = found is not None and found not in known
    return SchemaState(found, wanted, Fit.AHEAD if ahead else Fit.BEHIND)


def require(database: Database) -> None:
    """Raise SchemaDiffers unless the schema is exactly this version's."""
    now = state(database)
    if now.fit is not Fit.OK:
        raise SchemaDiffers(found=now.found, wanted=now.wanted, ahead=now.fit is Fit.AHEAD)


def _run(database: Database, step: Callable[[Config], None]) -> None:
    config = _config()
    with database.transaction() as connection:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})")
        config.attributes["connection"] = connection
        step(config)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(shipped.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
