"""Every statement of the store names tables and columns that the migrated database has."""

import importlib
import pkgutil
import re

import psycopg
import pytest
from sqlalchemy import Select, TextClause
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

import pidispatch.store

DIALECT = PGDialect_psycopg()
# What a statement may lack here: the type of a parameter that its caller's value would tell.
UNTOLD_TYPES = {None, "42P18", "42804", "42883", "42725"}


def statements():
    for module in pkgutil.walk_packages(pidispatch.store.__path__, "pidispatch.store."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, TextClause | Select):
                yield pytest.param(value, id=f"{module.name.removeprefix('pidispatch.store.')}.{name}")


def prepared(statement):
    """Its text with numbered parameters, as PREPARE wants them."""
    sql = str(statement.compile(dialect=DIALECT))
    numbers = {}
    text = re.sub(r"%\((\w+)\)s", lambda m: f"${numbers.setdefault(m[1], len(numbers) + 1)}", sql)
    return text.replace("%%", "%")


@pytest.fixture(scope="module")
def connection(services, migrated_template):
    name = services.new_database(migrated_template)
    with psycopg.connect(services.postgres.url(name).replace("postgresql+psycopg", "postgresql")) as made:
        yield made
    services.drop_database(name)


@pytest.mark.parametrize("statement", list(statements()))
def test_a_statement_is_one_for_this_schema(connection, statement):
    sql = prepared(statement)
    if not re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b", sql):
        pytest.skip("not a statement that is prepared")
    assert refusal(connection, sql) in UNTOLD_TYPES, sql


def refusal(connection, sql):
    """The SQLSTATE with which Postgres refuses to prepare it; None when it does not."""
    try:
        connection.execute(f"PREPARE a_statement AS {sql}", prepare=False)
        connection.execute("DEALLOCATE a_statement")
    except psycopg.Error as error:
        return f"{error}" if error.sqlstate not in UNTOLD_TYPES else error.sqlstate
    finally:
        connection.rollback()
    return None
