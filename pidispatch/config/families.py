"""Read the variables whose name ends in the name of a provider."""

from collections.abc import Mapping
from dataclasses import dataclass

from pidispatch.config.providers import API_PREFIX, UPSTREAM_PREFIX, provider_name

FAMILIES = {f"{prefix}<PROVIDER>": prefix for prefix in (UPSTREAM_PREFIX, API_PREFIX)}


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
