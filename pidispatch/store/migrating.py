"""Bring the schema to another revision. Alembic is imported here and in the migrations, by no process that serves."""

from collections.abc import Callable

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationInfo
from alembic.script import Script
from sqlalchemy import Connection

from pidispatch import shipped
from pidispatch.store import versions
from pidispatch.store.database import Database
from pidispatch.store.schema import Fit, SchemaState, differs, known_revisions, state

UPGRADE_LOCK = 0x70696469  # two upgrades at once would race; the second waits for this advisory lock
# A revision may rewrite a table of a year, and waits for whoever reads it.
NO_HURRY = (
    "SET LOCAL statement_timeout = 0",
    "SET LOCAL lock_timeout = 0",
    "SET LOCAL idle_in_transaction_session_timeout = 0",
)
Say = Callable[[str], None]


def upgrade(database: Database, *, progress: Say = lambda _: None) -> SchemaState:
    """Apply what is missing, in one transaction. Raises SchemaDiffers when the database is ahead, or damaged."""
    before = state(database)
    if before.fit in {Fit.AHEAD, Fit.DAMAGED}:
        raise differs(before)
    _run(database, lambda config: command.upgrade(config, "head"), progress)
    if before.fit is Fit.BEHIND:
        progress(f"schema: {before.found or 'empty'} -> {before.wanted}")
    return state(database)


def downgrade(database: Database, revision: str, *, progress: Say = lambda _: None) -> None:
    """Go back to `revision` (`base` for nothing). Data in what is dropped is lost."""
    _run(database, lambda config: command.downgrade(config, revision), progress)


def begin_changes(connection: Connection) -> None:
    """What precedes every change of the schema, in its transaction: only one at a time, and on our own table."""
    for said in NO_HURRY:
        connection.exec_driver_sql(said)
    connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({UPGRADE_LOCK})")
    versions.adopt(connection, known_revisions())


def line_of(step: MigrationInfo) -> str:
    """One applied revision for people, from what Alembic tells of it."""
    here, there = (" and ".join(ids) for ids in (step.source_revision_ids, step.destination_revision_ids))
    script = step.up_revision if step.is_migration and step.is_upgrade else None
    did = f": {script.doc.rstrip('.')}" if isinstance(script, Script) else ""
    return f"schema: {here or 'empty'} -> {there or 'empty'}{did}"


def _run(database: Database, step: Callable[[Config], None], progress: Say) -> None:
    config = alembic_config()
    with database.transaction() as connection:
        begin_changes(connection)
        config.attributes["connection"] = connection
        config.attributes["say"] = progress
        step(config)


def alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(shipped.folder("migrations")).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config
