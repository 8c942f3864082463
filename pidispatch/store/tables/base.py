"""Hold the metadata that all tables share, and the words that their rules are written with."""

from enum import StrEnum

from sqlalchemy import MetaData

from pidispatch.domain.runs.run import OCCUPYING

METADATA = MetaData()
TOKEN = "^[a-z][a-z0-9-]{0,63}$"  # noqa: S105 - the grammar of a reason word
OCCUPYING_SQL = ", ".join(f"'{state}'" for state in OCCUPYING)


def one_of(column: str, words: type[StrEnum] | tuple[str, ...]) -> str:
    """SQL that holds when `column` is null or one of the words."""
    listed = ", ".join(f"'{word}'" for word in words)
    return f"{column} IN ({listed})"
