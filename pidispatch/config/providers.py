"""Read the keys of model providers, which only the gateway's process may do."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import SecretStr

from pidispatch.config.grammar import Unwanted
from pidispatch.domain.providers.wireapis import WIRE_APIS
from pidispatch.errors import ConfigurationRefused


@dataclass(frozen=True, slots=True)
class Family:
    """The set variables of one family: which variable speaks of which provider, and what is wrong with names."""

    variables: dict[str, str]
    problems: list[str]


def family(texts: Mapping[str, str], prefix: str) -> Family:
    """Find the variables that begin with `prefix` and are not empty, by provider."""
    found: dict[str, str] = {}
    problems: list[str] = []
    for name in sorted(name for name, text in texts.items() if name.startswith(prefix) and text):
        provider = provider_name(name.removeprefix(prefix))
        if provider is None:
            problems.append(f"{name!r} names no provider; want {prefix} and letters, digits or underscores")
        elif provider in found:
            problems.append(
                f"{name} and {found[provider]} speak of one provider, {provider}; want one of them"
            )
        else:
            found[provider] = name
    return Family(found, problems)


UPSTREAM_PREFIX = "PIDISPATCH_UPSTREAM_"
API_PREFIX = "PIDISPATCH_PROVIDER_API_"
FAMILIES = {f"{prefix}<PROVIDER>": prefix for prefix in (UPSTREAM_PREFIX, API_PREFIX)}


def provider_api(text: str) -> str:
    if text in WIRE_APIS:
        return text
    raise Unwanted(" or ".join(WIRE_APIS))


def provider_name(suffix: str) -> str | None:
    """The provider that the end of a variable's name means; no shell takes a dash there, so `_` stands for it."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", suffix):
        return None
    return suffix.lower().replace("_", "-")


def provider_keys(environ: Mapping[str, str], names: Iterable[str]) -> Mapping[str, SecretStr]:
    """The keys among `names` that are set and not empty.

    Raises ConfigurationRefused for a key that no HTTP header can carry, without showing it.
    """
    found = {name: environ[name] for name in names if environ.get(name)}
    problems = [
        f"{name} holds a space, a control character or one outside ASCII (it is not shown); want the key alone"
        for name, key in found.items()
        if not re.fullmatch(r"[\x21-\x7e]+", key)
    ]
    if problems:
        raise ConfigurationRefused(problems)
    return {name: SecretStr(key) for name, key in found.items()}
