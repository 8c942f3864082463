"""The functions of the database are those whose texts lie beside the statements that call them."""

from pathlib import Path

import pytest
from sqlalchemy import text

import pidispatch.store

FOLDER = Path(pidispatch.store.__file__).parent / "sql/functions"
OURS = text("""
SELECT p.proname AS name, pg_get_functiondef(p.oid) AS definition
FROM pg_proc p WHERE p.pronamespace = current_schema()::regnamespace AND p.prokind = 'f' ORDER BY p.proname
""")


@pytest.fixture
def functions(database):
    with database.transaction() as connection:
        return {row.name: f"{row.definition.strip()};\n" for row in connection.execute(OURS)}


def test_every_function_of_the_migrated_database_has_its_text_here(functions):
    written = {path.stem: path.read_text() for path in FOLDER.glob("*.sql")}

    assert set(functions) == set(written)
    for name, definition in functions.items():
        assert definition == written[name], f"{name} differs: a migration changed it, so its file must too"
