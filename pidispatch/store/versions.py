"""Keep the schema's revision in a table of our own: a database may hold another program that uses Alembic too."""

from collections.abc import Collection

from sqlalchemy import Connection, text

TABLE = "pidispatch_alembic_version"
SHARED = "alembic_version"  # Alembic's usual name, which was ours until revision 0014
MARKS = (
    "runs",
    "run_attempts",
    "provider_calls",
    "spend_windows",
    "reservations",
)  # ours, by the first revision
FIND_OURS = text("SELECT to_regclass(:ours) IS NOT NULL")
# Beside all of our tables the revision is ours; another program's is in a schema, or a database, without them.
IS_OURS = text("""
SELECT (SELECT count(*) FROM pg_class t WHERE t.relnamespace = c.relnamespace AND t.relname = ANY(:marks)) = :of
FROM pg_class c WHERE c.oid = to_regclass(:shared)
""")
MISSING = text(
    "SELECT name FROM unnest(CAST(:names AS text[])) name WHERE to_regclass(quote_ident(name)) IS NULL"
)


def revisions(connection: Connection, known: Collection[str]) -> tuple[str, ...]:
    """What the database is at: nothing when it is empty, one revision unless somebody wrote into the table.

    `known` are this version's revisions.
    """
    if connection.execute(FIND_OURS, {"ours": TABLE}).scalar_one():
        return _read(connection, TABLE)
    return _in_shared(connection, known)


def adopt(connection: Connection, known: Collection[str]) -> None:
    """Carry an existing installation's revision over into our table; of another program's nothing is changed."""
    if connection.execute(FIND_OURS, {"ours": TABLE}).scalar_one():
        return
    mine = _in_shared(connection, known)
    if not mine:
        return
    if len(mine) == len(_read(connection, SHARED)):
        connection.exec_driver_sql(f"ALTER TABLE {SHARED} RENAME TO {TABLE}")
        connection.exec_driver_sql(f"ALTER INDEX IF EXISTS {SHARED}_pkc RENAME TO {TABLE}_pkc")
        return
    connection.exec_driver_sql(f"CREATE TABLE {TABLE} (LIKE {SHARED} INCLUDING ALL)")
    moved = text(f"WITH mine AS (DELETE FROM {SHARED} WHERE version_num = ANY(:mine) RETURNING version_num)"  # noqa: S608 - fixed words
                 f" INSERT INTO {TABLE} SELECT version_num FROM mine")  # fmt: skip
    connection.execute(moved, {"mine": list(mine)})


def missing(connection: Connection, names: Collection[str]) -> tuple[str, ...]:
    """Those of the tables that are not there."""
    return tuple(sorted(connection.execute(MISSING, {"names": list(names)}).scalars()))


def _in_shared(connection: Connection, known: Collection[str]) -> tuple[str, ...]:
    asked = {"shared": SHARED, "marks": list(MARKS), "of": len(MARKS)}
    if not connection.execute(IS_OURS, asked).scalar_one_or_none():
        return ()
    found = _read(connection, SHARED)
    return found if len(found) == 1 else tuple(each for each in found if each in known)


def _read(connection: Connection, table: str) -> tuple[str, ...]:
    rows = connection.exec_driver_sql(f"SELECT version_num FROM {table} ORDER BY 1")  # noqa: S608 - fixed words
    return tuple(rows.scalars())
