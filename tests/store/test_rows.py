"""A value is made of a row by the names of its columns, whatever their order."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from sqlalchemy import text

from pidispatch.domain.run import State
from pidispatch.store.rows import record


@dataclass(frozen=True)
class Inner:
    names: tuple[str, ...] | None
    state: State


@dataclass(frozen=True)
class Outer:
    number: int
    inner: Inner
    at: datetime | None = None
    other: State | None = None


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLUMNS = {
    "inner_state": "'held'",
    "inner_names": "ARRAY['a', 'b']",
    "at": "timestamptz '2026-03-01 12:00Z'",
    "other": "NULL",
    "unused": "1",
    "number": "7",
}


def a_row(database, **columns):
    listed = ", ".join(f"{value} AS {name}" for name, value in columns.items())
    with database.transaction() as connection:
        return connection.execute(text(f"SELECT {listed}")).one()


def test_each_field_is_the_column_of_its_name(database):
    found = record(Outer, a_row(database, **COLUMNS))

    assert found == Outer(7, Inner(("a", "b"), State.HELD), NOON, None)
    assert hash(found)


def test_what_is_known_already_needs_no_column(database):
    inner = Inner(None, State.QUEUED)

    assert record(Outer, a_row(database, number="1", at="NULL", other="'ended'"), inner=inner) == Outer(
        1, inner, None, State.ENDED
    )


@pytest.mark.parametrize("missing", ["number", "at", "other", "inner_names"])
def test_a_column_that_a_statement_forgot_is_no_default(database, missing):
    forgetful = {name: value for name, value in COLUMNS.items() if name != missing}

    with pytest.raises(KeyError, match=missing):
        record(Outer, a_row(database, **forgetful))


def test_a_word_that_is_not_known_is_no_state(database):
    with pytest.raises(ValueError, match="asleep"):
        record(Outer, a_row(database, **COLUMNS | {"inner_state": "'asleep'"}))
