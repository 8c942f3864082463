"""Write a run that somebody asked for: once, however often the same request arrives. Read it back to make another of it."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Integer, Text, bindparam, insert, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from pidispatch.domain.runs.ask import Ask, Kinship, Terms
from pidispatch.domain.runs.run import NewRun, State
from pidispatch.store.rows import record
from pidispatch.store.runs.waits import add_wait
from pidispatch.store.tables import RUN_PAYLOADS, RUNS

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


def _columns(kind: Any, name: str, kept_as: dict[str, str] | None = None) -> str:
    """The columns of a value that is nested under this name, in a statement with `runs r` and `run_payloads p`."""
    columns = [(field.name, (kept_as or {}).get(field.name, field.name)) for field in fields(kind)]
    return ", ".join(f"{_place(column)} AS {name}_{field}" for field, column in columns)


def _place(column: str) -> str:
    return f"r.{column}" if column in RUNS.c else f"p.{column}"


ASK_SQL = _columns(Ask, "ask", AS_ASKED)
TERMS_SQL = _columns(Terms, "terms")
# In the order of their keys, since two that write may bring the same new scopes and would wait for each other.
ADD_SCOPES = text("""
INSERT INTO scopes (key, "limit") SELECT key, bound FROM unnest(:keys, :bounds) AS s (key, bound) ORDER BY key
ON CONFLICT (key) DO NOTHING
""").bindparams(bindparam("keys", type_=ARRAY(Text)), bindparam("bounds", type_=ARRAY(Integer)))
WRITTEN = [
    name
    for name in (
        *OWN,
        *(field.name for kind in NESTED.values() for field in fields(kind)),
        *AS_ASKED.values(),
        "state",
    )
    if name in RUNS.c
]
# As one parameter: a parameter for each column of each run takes the driver longer than Postgres takes for the rows.
ADD_RUN = text(f"""
INSERT INTO runs ({", ".join(WRITTEN)}) SELECT {", ".join(WRITTEN)} FROM jsonb_populate_recordset(NULL::runs, :rows)
ON CONFLICT (public_id) DO NOTHING RETURNING id, public_id
""").bindparams(bindparam("rows", type_=JSONB))  # noqa: S608 - names of columns
ADD_PAYLOAD = insert(RUN_PAYLOADS)
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
    scopes = {run.scope: None for run in runs} | {run.mutex: 1 for run in runs if run.mutex is not None}
    connection.execute(ADD_SCOPES, {"keys": list(scopes), "bounds": list(scopes.values())})
    rows: dict[str, dict[str, Any]] = {}
    for run in runs:
        rows.setdefault(run.public_id, _row(run))
    added = connection.execute(ADD_RUN, {"rows": [_plain(row) for row in rows.values()]})
    made = {row.public_id: row.id for row in added}
    payloads = [
        {**{name: row[name] for name in row if name in RUN_PAYLOADS.c}, "run_id": made[public_id]}
        for public_id, row in rows.items()
        if public_id in made
    ]
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
    row |= {column: row[field] for field, column in AS_ASKED.items()}
    return row | {"state": State.QUEUED if run.cause is None else State.DEFERRED}


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """What goes into `runs`, as JSON has it."""
    values = {name: row[name] for name in WRITTEN}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value for name, value in values.items()
    }
