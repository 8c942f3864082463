"""Describe the settings in force: each name, its value, and where it came from; no secret among them."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from pidispatch.config.grammar import GIBIBYTE, MEBIBYTE
from pidispatch.config.kinds import Mark
from pidispatch.config.providers import FAMILIES, provider_name
from pidispatch.config.settings import FIELDS, Settings, is_marked
from pidispatch.config.sources import Source
from pidispatch.config.urls import shown_url
from pidispatch.domain.money import dollars
from pidispatch.domain.text.address import TcpAddress, UnixAddress

Shown = str | int | float | bool | list[str] | None


@dataclass(frozen=True, slots=True)
class ConfigRow:
    """One variable. `value` is JSON: a secret is `set` or `unset`, an address is without its password."""

    name: str
    value: Shown
    source: Source


def describe(settings: Settings) -> list[ConfigRow]:
    """A row for every setting in the order of the fields, and one for each provider's variable that is set."""
    rows: list[ConfigRow] = []
    for name, field in FIELDS.items():
        value = getattr(settings, field)
        if name in FAMILIES:
            rows += _members(FAMILIES[name], value, settings)
        else:
            rows.append(ConfigRow(name, _shown(name, value), settings.sources.get(name, Source.DEFAULT)))
    return rows


def _members(prefix: str, values: dict[str, str], settings: Settings) -> Iterator[ConfigRow]:
    for name, source in settings.sources.items():
        provider = provider_name(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if provider in values:
            yield ConfigRow(name, values[provider], source)


def _shown(name: str, value: Any) -> Shown:
    if is_marked(name, Mark.SECRET):
        return "unset" if value is None else "set"
    if isinstance(value, SecretStr):
        return shown_url(value.get_secret_value())
    if is_marked(name, Mark.SIZE) and value:
        return f"{value // GIBIBYTE}g" if value % GIBIBYTE == 0 else f"{value // MEBIBYTE}m"
    if is_marked(name, Mark.DOLLARS) and value is not None:
        return dollars(value)
    if isinstance(value, timedelta):
        return value // timedelta(milliseconds=1)
    if isinstance(value, Path | TcpAddress | UnixAddress):
        return str(value)
    return list(value) if isinstance(value, tuple) else value
