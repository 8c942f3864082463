"""Make values of rows: each field from the column of its name, never by position."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Value = TypeVar("Value")
Take = Callable[[dict[str, Any], str], Any]


def record(kind: type[Value], row: Any, **known: Any) -> Value:
    """The dataclass whose fields the row's columns are; `known` are fields that the row does not hold.

    A field that is itself a dataclass is read from the columns `<field>_<its field>`. Words become enums, arrays tuples.
    A column that is missing raises KeyError, even where the field has a default; further columns are left alone.
    """
    made: Value = _built(kind, row._asdict(), "", known)
    return made


def _built(kind: Any, row: dict[str, Any], prefix: str, known: dict[str, Any]) -> Any:
    found = {name: take(row, prefix + name) for name, take in _takes(kind) if name not in known}
    return kind(**found, **known)


@cache
def _takes(kind: Any) -> list[tuple[str, Take]]:
    hints = get_type_hints(kind)
    return [(field.name, _take(hints[field.name])) for field in fields(kind)]


def _take(hint: Any) -> Take:
    """How a field of this type is read of a row, by the name of its column."""
    if is_dataclass(hint):
        return lambda row, column: _built(hint, row, f"{column}_", {})
    (plain, *others) = [each for each in get_args(hint) if each is not NoneType] or [hint]
    of = plain if NoneType in get_args(hint) and not others else hint
    if isinstance(of, type) and issubclass(of, Enum):
        return lambda row, column: None if row[column] is None else of(row[column])
    if get_origin(of) is tuple:
        return lambda row, column: None if row[column] is None else tuple(row[column])
    return lambda row, column: row[column]
