"""Make docs/schema.md of the tables: a diagram of their keys, and one sentence for each."""

import re
from collections.abc import Iterator

from sqlalchemy import Column, ForeignKeyConstraint, Table
from sqlalchemy.dialects import postgresql

from pidispatch.store.tables import METADATA
from scripts.markdown import table

HEAD = """# The schema

The tables of the database, their keys, and what one row of each is. This page is made of `pidispatch/store/tables/` by `make docs`; a test
compares them. Every table and column carries a comment: `pidispatch db psql -c '\\d+ runs'`. The order in which rows are locked is in
[architecture](architecture.md#order-of-locks).

The views `run_history`, `why_waiting` and `spend_today` are for people; `pidispatch_alembic_version` holds the [revision](operations.md#the-schema).
"""
SENTENCES = {
    "Runs": {
        "runs": "One run: what was asked, where it stands, how it ended and what it used; free of personal data.",
        "run_payloads": "The untrusted bytes of a run, such as its task, and its folder's path; deleted seven days after its end.",
        "run_attempts": "One attempt of a run: one container, from admission to its end, and what it reported.",
        "run_waits": "What a run must wait for before it may start, and what was answered when that was asked.",
        "run_sessions": "pi's transcript of a run that stopped at a cap, for the run that goes on with it; deleted seven days after the end.",
        "egress_uses": "What a run did at one host outside of its box, or tried to: connections and bytes, allowed or blocked.",
    },
    "Limits and turns": {
        "scopes": "What limits and pauses apply to: a repository, a folder, a folder's inode, or everything (`*`), with how many of its runs are at work.",
        "subjects": "What runs are about: a scope, an item in it, and a flow or command; its runs take turns.",
        "hosts": "A machine that runs boxes, and how many it has room for.",
        "workers": "A worker process and its last sign of life.",
    },
    "Money": {
        "spend_windows": "What one scope has used of one unit (runs, tokens, dollars) in one period: the sum of its reservations.",
        "reservations": "What one run holds in one window, until it is settled at what was used, or released.",
        "provider_calls": "One model call: written at the most that it may come to before its first byte goes out, settled when its answer has ended.",
        "run_usage": "Tokens, calls and cost of one model in one run: the sum of its settled calls.",
        "spend_adjustments": "A figure that came after its call had been settled at an assumption; rows are only ever added.",
    },
    "What starts runs": {
        "deliveries": "One event that arrived, and what was decided of it; those that started nothing are kept too.",
        "schedules": "A schedule of a triggers file, the host that plans it, and the next instant to plan.",
        "schedule_slots": "One planned instant of one schedule, and what became of it.",
        "one_shots": "A one-shot trigger that has been used up, and the run that did.",
        "rearmed_one_shots": "A one-shot trigger that had been used up and was armed again.",
        "breakers": "A trigger whose last runs all failed at one step; without a row nothing is wrong.",
        "uncounted_endings": "A run of a trigger that has ended and is not yet counted for or against its breaker.",
    },
    "Operators": {
        "operator_files": "The last good content of one of the operator's files on one host.",
        "host_zones": "The time zone of a host's schedules that name none themselves.",
        "audit_log": "One action of an operator, with who and when; rows are only ever added.",
    },
}  # fmt: skip


def page() -> str:
    """Raises KeyError for a sentence about no table; a test finds a table without a sentence."""
    tables = METADATA.tables
    parts = [HEAD, "```mermaid\nerDiagram"]
    parts += [line for name in sorted(tables) for line in _entity(tables[name])]
    parts += sorted(
        _relation(tables[name], key) for name in tables for key in tables[name].foreign_key_constraints
    )
    parts.append("```\n")
    for title, told in SENTENCES.items():
        rows = [(f"`{name}`", _key(tables[name]), sentence) for name, sentence in told.items()]
        parts += [f"## {title}\n", *table(("Table", "Key", "One row is"), rows), ""]
    return "\n".join(parts)


def _entity(one: Table) -> Iterator[str]:
    """Key columns alone: `runs` has many more than a picture can hold."""
    yield f"    {one.name} {{"
    for column in one.columns:
        marks = ", ".join(
            mark for mark, is_one in (("PK", column.primary_key), ("FK", column.foreign_keys)) if is_one
        )
        if marks:
            yield f"        {_type(column)} {column.name} {marks}"
    yield "    }"


def _type(column: Column[object]) -> str:
    return re.sub(r"\W+", "_", column.type.compile(dialect=postgresql.dialect()).lower())


def _relation(one: Table, key: ForeignKeyConstraint) -> str:
    """One line from the table that is named to the one that names it."""
    columns = set(key.columns)
    parent = "|o" if any(column.nullable for column in columns) else "||"
    child = "o|" if columns == set(one.primary_key.columns) else "o{"
    return f'    {key.referred_table.name} {parent}--{child} {one.name} : "{", ".join(column.name for column in key.columns)}"'


def _key(one: Table) -> str:
    return ", ".join(f"`{column.name}`" for column in one.primary_key.columns)
