"""Migrations: up and down with rows present, and a version that refuses what it does not know."""

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from pidispatch.errors import SchemaDiffers
from pidispatch.store import migrating, schema, versions
from pidispatch.store.database import Database
from pidispatch.store.tables import METADATA
from tests.store.builders import a_boxed_run, a_host, value

NEWEST = max(path.name[:4] for path in (Path(__file__).parents[2] / "migrations/versions").glob("0*.py"))


@pytest.fixture
def empty(empty_database_url):
    database = Database(empty_database_url)
    yield database
    database.close()


def test_an_empty_database_is_behind_and_an_upgrade_makes_it_ok(empty):
    assert schema.state(empty).fit is schema.Fit.BEHIND
    with pytest.raises(SchemaDiffers, match=f"behind: it is at no revision, this version needs {NEWEST}"):
        schema.require(empty)

    lines = []
    after = migrating.upgrade(empty, progress=lines.append)

    assert after.fit is schema.Fit.OK
    assert lines[0] == "schema: empty -> 0001: The first tables"
    assert lines[-1] == f"schema: empty -> {NEWEST}"
    schema.require(empty)


def test_a_database_of_a_newer_version_is_refused_with_both_revisions(database):
    with database.transaction() as connection:
        connection.execute(text("UPDATE pidispatch_alembic_version SET version_num = '9999'"))

    assert schema.state(database).fit is schema.Fit.AHEAD
    with pytest.raises(SchemaDiffers, match=f"ahead: it is at 9999, this version needs {NEWEST}"):
        schema.require(database)
    with pytest.raises(SchemaDiffers):
        migrating.upgrade(database)


def test_upgrade_twice_keeps_rows_and_downgrade_leaves_nothing(database):
    a_host(database)
    a_boxed_run(database)

    migrating.upgrade(database)
    assert value(database, "SELECT count(*) FROM runs") == 1

    migrating.downgrade(database, "base")
    left = value(
        database,
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = 'public' AND c.relname <> 'pidispatch_alembic_version' AND c.relkind IN ('r', 'v', 'S')",
    )
    functions = value(
        database,
        "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'public'",
    )
    assert (left, functions) == (0, 0)
    migrating.upgrade(database)
    assert value(database, "SELECT count(*) FROM runs") == 0


def test_the_models_and_the_migrations_agree(database):
    with database.transaction() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "version_table": versions.TABLE}
        )
        assert compare_metadata(context, METADATA) == []


def test_the_revisions_told_by_file_names_are_those_of_the_migrations():
    scripts = ScriptDirectory.from_config(migrating.alembic_config())

    assert schema.known_revisions() == {script.revision for script in scripts.walk_revisions()}
    assert [max(schema.known_revisions())] == scripts.get_heads()


def test_without_migrations_no_database_passes(monkeypatch, tmp_path, database):
    (tmp_path / "versions").mkdir()
    (tmp_path / "versions" / "__init__.py").touch()
    monkeypatch.setattr(schema.shipped, "folder", lambda _name: tmp_path)

    with pytest.raises(RuntimeError, match="no migrations"):
        schema.require(database)


def test_every_table_and_view_says_what_it_is(database):
    silent = value(
        database,
        "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public'"
        " AND c.relkind IN ('r', 'v') AND c.relname <> 'pidispatch_alembic_version' AND obj_description(c.oid) IS NULL",
    )
    assert silent == 0


def test_every_column_of_a_table_says_what_it_holds(database):
    silent = value(
        database,
        "SELECT count(*) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
        " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'"
        " AND c.relname <> 'pidispatch_alembic_version' AND a.attnum > 0 AND NOT a.attisdropped"
        " AND col_description(c.oid, a.attnum) IS NULL",
    )
    assert silent == 0


def test_the_audit_log_only_grows(database):
    with database.transaction() as connection:
        connection.execute(text("INSERT INTO audit_log (actor, action) VALUES ('me', 'pause')"))

    for statement in ("UPDATE audit_log SET actor = 'you'", "DELETE FROM audit_log", "TRUNCATE audit_log"):
        with pytest.raises(Exception, match="audit_log only grows"), database.transaction() as connection:
            connection.execute(text(statement))
