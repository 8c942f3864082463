"""Know how each provider is asked: its wire API, where it answers, and how its key is put in."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from pidispatch.domain.providers.calls import ProviderFacts
from pidispatch.domain.providers.known import (
    KNOWN,
    URL_WANTED,
    Known,
    is_base_url,
    is_local,
    is_loopback,
    key_names,
)
from pidispatch.domain.providers.piauth import NO_KEY, Stored
from pidispatch.domain.providers.providersfile import KeyFrom, ModelFigures, ProviderEntry
from pidispatch.domain.providers.wireapis import OPENAI
from pidispatch.errors import ConfigurationRefused
from pidispatch.gateway.wire.api import WireApi
from pidispatch.gateway.wire.apis import BY_NAME

CONNECT_SECONDS = 30.0
READ_SECONDS = 300.0
FROM_PI = "pi's auth.json"


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a provider may take to be reached, for the first byte of an answer's body, for each next one.

    None: for ever. A run's deadline ends its calls at any rate.
    """

    connect: float = CONNECT_SECONDS
    first: float | None = READ_SECONDS
    next: float | None = READ_SECONDS


USUAL = Patience()


class Secret(Protocol):
    """A value that must be asked for (pydantic's SecretStr)."""

    def get_secret_value(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider as this gateway may use it. The key shows in no repr. `slots`: calls at a time, None: any number.
    `rate`: tokens a second that no answer passes, None: nobody knows.

    `elsewhere`: models whose name begins so are reached by another wire API when pi's own entry is used.
    """

    facts: ProviderFacts
    url: str
    takes_options: bool
    key: str | None = field(repr=False)
    slots: int | None = None
    models: Mapping[str, ModelFigures] = field(default_factory=dict)
    elsewhere: tuple[str, ...] = ()
    patience: Patience = USUAL
    rate: int | None = None

    @property
    def api(self) -> WireApi:
        return BY_NAME[self.facts.api]

    @property
    def tells_input(self) -> bool:
        """Its answers begin with the exact count of their input; other servers of that API begin with a guess."""
        return self.facts.name in self.api.tells_input

    def credentials(self) -> tuple[tuple[str, str], ...]:
        """The header that carries the key; none for a provider that needs no key."""
        return () if self.key is None else (self.api.key(self.key),)


class Providers:
    """The providers of this installation.

    `keys` maps environment names (ANTHROPIC_API_KEY) to values; empty ones count as unset. `upstreams` replaces
    a provider's base URL or makes a new provider; `apis` names the wire API of a new one (default: chat completions).
    `entries` is what the providers file says and `stored` what pi has stored, both by provider. `patience` is had with
    those that say nothing else, but that one on this machine or a private network may take any time for its first byte,
    unless `first_byte` (0: none) says it of all.
    Raises ConfigurationRefused.
    """

    def __init__(
        self,
        *,
        keys: Mapping[str, str | Secret],
        upstreams: Mapping[str, str] | None = None,
        apis: Mapping[str, str] | None = None,
        entries: Mapping[str, ProviderEntry] | None = None,
        stored: Mapping[str, Stored] | None = None,
        patience: Patience = USUAL,
        first_byte: int | None = None,
    ) -> None:
        upstreams, apis, entries = upstreams or {}, apis or {}, entries or {}
        problems = _faults(upstreams, apis, entries)
        if problems:
            raise ConfigurationRefused(problems)
        purse = _Purse({name: _plain(value) for name, value in keys.items()}, stored or {})
        merged = {
            name: _merged(entries.get(name), upstreams.get(name), apis.get(name))
            for name in sorted({*KNOWN, *upstreams, *entries})
        }
        self._all = {
            name: _provider(name, entry, purse, _patience(entry, patience, first_byte))
            for name, entry in merged.items()
        }

    def find(self, name: str) -> Provider | None:
        return self._all.get(name)

    def secrets(self) -> frozenset[str]:
        """Every key, for whoever must hide them."""
        return frozenset(provider.key for provider in self._all.values() if provider.key is not None)

    def facts(self, name: str, model: str | None = None) -> ProviderFacts | None:
        """With a model, its figures as well, and whether pi knows how to reach that one."""
        provider = self._all.get(name)
        if provider is None or model is None:
            return provider.facts if provider else None
        figures = provider.models.get(model, ModelFigures())
        return replace(
            provider.facts,
            known_to_pi=provider.facts.known_to_pi and not model.startswith(provider.elsewhere),
            model_listed=model in provider.models,
            context_window=figures.context_window,
            max_tokens=figures.max_tokens,
            reasoning=figures.reasoning,
        )


@dataclass(frozen=True, slots=True)
class _Credential:
    """A key, or that none is needed (`source` None), or the word for what is missing. `source` is for people."""

    key: str | None = field(default=None, repr=False)
    source: str | None = None
    lacks: str | None = None


@dataclass(frozen=True, slots=True)
class _Purse:
    """Every key this process was given."""

    keys: Mapping[str, str] = field(repr=False)
    stored: Mapping[str, Stored]

    def find(self, name: str, entry: ProviderEntry) -> _Credential:
        """As the file says; without its word the environment comes first, then pi."""
        if entry.key == KeyFrom():
            return _Credential()
        if entry.key is not None and entry.key.env is not None:
            return self._from_environment((entry.key.env,))
        if entry.key is not None:
            return self._from_pi(name)
        found = self._from_environment(key_names(name))
        found = found if found.lacks is None else self._from_pi(name)
        if found.lacks is not None and entry.base_url is not None and is_loopback(entry.base_url):
            return _Credential()
        return found

    def _from_environment(self, variables: tuple[str, ...]) -> _Credential:
        return next(
            (_Credential(self.keys[variable], variable) for variable in variables if self.keys.get(variable)),
            _Credential(lacks=NO_KEY),
        )

    def _from_pi(self, name: str) -> _Credential:
        stored = self.stored.get(name, Stored(lacks=NO_KEY))
        return _Credential(stored.key, None if stored.key is None else FROM_PI, stored.lacks)


def _merged(entry: ProviderEntry | None, upstream: str | None, api: str | None) -> ProviderEntry:
    entry = entry or ProviderEntry()
    base = entry.base_url or upstream
    return replace(entry, base_url=None if base is None else base.rstrip("/"), api=entry.api or api)


def _patience(entry: ProviderEntry, usual: Patience, first_byte: int | None) -> Patience:
    """A model at home may have to be loaded first, and nobody pays for the wait."""
    said = entry.first_byte if entry.first_byte is not None else first_byte
    if said is not None:
        return replace(usual, first=said or None)
    is_near = entry.base_url is not None and is_local(entry.base_url)
    return replace(usual, first=None) if is_near else usual


def _provider(name: str, entry: ProviderEntry, purse: _Purse, patience: Patience) -> Provider:
    known = KNOWN.get(name) or Known(OPENAI, "", (), in_pi=False)
    wire = entry.api or known.api
    credential = purse.find(name, entry)
    facts = ProviderFacts(
        name=name,
        api=wire,
        known_to_pi=known.in_pi and wire == known.api,
        credential=credential.lacks is None,
        lacks=credential.lacks,
        key_source=credential.source,
    )
    url = (entry.base_url or known.base) + BY_NAME[wire].suffix
    return Provider(
        facts,
        url,
        known.takes_options,
        credential.key,
        slots=entry.slots,
        models=entry.models,
        elsewhere=known.elsewhere,
        patience=patience,
        rate=entry.rate,
    )


def _faults(
    upstreams: Mapping[str, str], apis: Mapping[str, str], entries: Mapping[str, ProviderEntry]
) -> list[str]:
    problems = [
        f"provider {name}: its upstream must be {URL_WANTED}"
        for name, url in upstreams.items()
        if not is_base_url(url)
    ]
    problems += [
        f"provider {name}: unknown wire API {api}" for name, api in apis.items() if api not in BY_NAME
    ]
    for name, entry in entries.items():
        twice = [
            f"{prefix}{name.upper().replace('-', '_')}"
            for prefix, said, given in (
                ("PIDISPATCH_UPSTREAM_", entry.base_url, upstreams.get(name)),
                ("PIDISPATCH_PROVIDER_API_", entry.api, apis.get(name)),
            )
            if said is not None and given is not None and said != given.rstrip("/")
        ]
        problems += [
            f"provider {name}: the providers file and {variable} differ; take one of them away"
            for variable in twice
        ]
    return problems


def _plain(value: str | Secret) -> str:
    return (value if isinstance(value, str) else value.get_secret_value()).strip()
