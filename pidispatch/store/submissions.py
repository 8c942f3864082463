"""Write a run that somebody asked for: once, however often the same request arrives. Read it back to make another of it."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from sqlalchemy import Connection, TableClause, column, insert, table, text
from sqlalchemy.dialects.postgresql import insert as insert_or_nothing

from pidispatch.domain.ask import Ask, Kinship, Terms
from pidispatch.domain.run import NewRun, State
from pidispatch.store.rows import record
from pidispatch.store.waits import add_wait

# An admission writes what is in force over what was asked; of these a second column keeps what was asked.
AS_ASKED = {"cost_cap_micros": "cost_cap_asked", "allowed_models": "models_asked"}
# What is of one run alone. What is made of it is due at once, waits for nothing and spends no one-shot.
ALONE = {
    "cause": None,
    "not_before": None,
    "one_shot": None,
    "wait_for": (),
    "wait_key": None,
    "replica": None,
    "replicas": None,
}
NESTED = {"ask": Ask, "kinship": Kinship}
OWN = tuple(field.name for field in fields(NewRun) if field.name not in NESTED)
IN_RUN_WAITS = {"wait_for", "wait_key"}
# Untrusted bytes and paths have a table of their own, each other field is a column of `runs`. The columns are named here,
# since the table classes would bring SQLAlchemy's ORM into every process.
UNTRUSTED = ("folder", "folder_given", "task", "task_bytes", "event", "title", "body", "skills_dir")
ASKED = (*OWN, *(field.name for kind in NESTED.values() for field in fields(kind)), *AS_ASKED.values())
PAYLOADS = table("run_payloads", *(column(name) for name in ("run_id", *UNTRUSTED)))
RUNS = table(
    "runs", *(column(name) for name in ("id", "state", *ASKED) if name not in {*UNTRUSTED, *IN_RUN_WAITS})
)


def _columns(kind: Any, name: str, kept_as: dict[str, str] | None = None) -> str:
    """The columns of a value that is nested under this name, in a statement with `runs r` and `run_payloads p`."""
    columns = [(field.name, (kept_as or {}).get(field.name, field.name)) for field in fields(kind)]
    return ", ".join(f"{_place(place)} AS {name}_{field}" for field, place in columns)


def _place(name: str) -> str:
    return f"p.{name}" if name in UNTRUSTED else f"r.{name}"


ASK_SQL = _columns(Ask, "ask", AS_ASKED)
TERMS_SQL = _columns(Terms, "terms")
ADD_SCOPE = text('INSERT INTO scopes (key, "limit") VALUES (:key, :limit) ON CONFLICT (key) DO NOTHING')
ADD_RUN = (
    insert_or_nothing(RUNS)
    .on_conflict_do_nothing(index_elements=["public_id"])
    .returning(RUNS.c.id, RUNS.c.public_id)
)
ADD_PAYLOAD = insert(PAYLOADS)
KEPT = text(f"""
SELECT {", ".join(f"{_place(name)} AS {name}" for name in OWN if name not in ALONE)}, {ASK_SQL},
       {_columns(Kinship, "kinship")}
FROM runs r LEFT JOIN run_payloads p ON p.run_id = r.id WHERE r.id = :id
""")  # noqa: S608 - names of fields


def add_run(connection: Connection, run: NewRun) -> int | None:
    """The new row's id; None, having written nothing, when a run of this public id exists."""
    return add_runs(connection, [run]).get(run.public_id)


def add_runs(connection: Connection, runs: Sequence[NewRun]) -> dict[str, int]:
    """The ids of the new rows by their public ids; a run whose public id exists is left as it is."""
    if not runs:
        return {}
    # In one order, since two that write may bring the same new scopes and would wait for each other.
    scopes = {run.scope: None for run in runs} | {run.mutex: 1 for run in runs if run.mutex is not None}
    connection.execute(ADD_SCOPE, [{"key": key, "limit": limit} for key, limit in sorted(scopes.items())])
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        rows.setdefault(run.public_id, _row(run))
    added = connection.execute(ADD_RUN, [_of(RUNS, row) for row in rows.values()])
    made = {row.public_id: row.id for row in added}
    payloads = [{**_of(PAYLOADS, rows[name]), "run_id": run_id} for name, run_id in made.items()]
    if payloads:
        connection.execute(ADD_PAYLOAD, payloads)
    for run in runs:
        if run.wait_for and run.public_id in made:
            add_wait(connection, made[run.public_id], run)
    return made


def kept(connection: Connection, run_id: int) -> NewRun:
    """The run as it was asked for, under its own public id, without what is of that one run alone.

    Provider, model, image, turns and tokens are as they were used, once it was admitted.
    """
    return record(NewRun, connection.execute(KEPT, {"id": run_id}).one(), **ALONE)


def _row(run: NewRun) -> dict[str, Any]:
    """The run by the names of its columns, in whichever of the two tables they are."""
    row = {name: getattr(run, name) for name in OWN}
    for nested, kind in NESTED.items():
        row |= {field.name: getattr(getattr(run, nested), field.name) for field in fields(kind)}
    row |= {kept_as: row[field] for field, kept_as in AS_ASKED.items()}
    return row | {"state": State.QUEUED if run.cause is None else State.DEFERRED}


def _of(rows: TableClause, row: dict[str, Any]) -> dict[str, Any]:
    """What of it is in this table. To the driver a list is an array, a tuple is not."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in row.items()
        if name in rows.c
    }
