"""Know each provider: its wire API, where it answers, and how its key is put in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from pidispatch.errors import ConfigurationRefused
from pidispatch.gateway.metering import ANTHROPIC, OPENAI
from pidispatch.ports import ProviderFacts

WIRE_PATHS = {"/v1/chat/completions": OPENAI, "/v1/messages": ANTHROPIC}
_SUFFIXES = {OPENAI: "/chat/completions", ANTHROPIC: "/v1/messages"}


class Secret(Protocol):
    """A value that must be asked for (pydantic's SecretStr)."""

    def get_secret_value(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Known:
    """One row of the table. `base` is written as pi's `baseUrl` is: with `/v1` for chat completions, without for messages.

    `in_pi` says that pi's own entry of this name speaks `api`; where pi would speak another API (openai, xai,
    mistral: responses, conversations) its models must be written out. `takes_options`: `stream_options` is allowed.
    """

    api: str
    base: str
    key_names: tuple[str, ...]
    in_pi: bool = True
    takes_options: bool = True


# Names, addresses and key variables as in pi 1.6.0 (docs/providers.md and its model table).
KNOWN: Mapping[str, Known] = {
    "anthropic": Known(ANTHROPIC, "https://api.anthropic.com", ("ANTHROPIC_API_KEY",)),
    "baseten": Known(OPENAI, "https://inference.baseten.co/v1", ("BASETEN_API_KEY",)),
    "cerebras": Known(OPENAI, "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    "deepseek": Known(OPENAI, "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    "groq": Known(OPENAI, "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "huggingface": Known(OPENAI, "https://router.huggingface.co/v1", ("HF_TOKEN",)),
    "kimi-coding": Known(OPENAI, "https://api.kimi.com/coding/v1", ("KIMI_API_KEY",)),
    "minimax": Known(ANTHROPIC, "https://api.minimax.io/anthropic", ("MINIMAX_API_KEY",)),
    "mistral": Known(
        OPENAI, "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), in_pi=False, takes_options=False
    ),
    "moonshotai": Known(OPENAI, "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
    "nvidia": Known(OPENAI, "https://integrate.api.nvidia.com/v1", ("NVIDIA_API_KEY",)),
    "openai": Known(OPENAI, "https://api.openai.com/v1", ("OPENAI_API_KEY",), in_pi=False),
    "openrouter": Known(OPENAI, "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",)),
    "together": Known(OPENAI, "https://api.together.ai/v1", ("TOGETHER_API_KEY",)),
    "xai": Known(OPENAI, "https://api.x.ai/v1", ("XAI_API_KEY",), in_pi=False),
    "xiaomi": Known(OPENAI, "https://api.xiaomimimo.com/v1", ("XIAOMI_API_KEY",)),
    "zai": Known(OPENAI, "https://api.z.ai/api/coding/paas/v4", ("ZAI_API_KEY",)),
}


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider as this gateway may use it. The key shows in no repr.

    `slots`: at most so many of its calls are under way; None is no bound.
    """

    facts: ProviderFacts
    url: str
    takes_options: bool
    key: str | None = field(repr=False)
    slots: int | None = None

    def credentials(self) -> tuple[tuple[str, str], ...]:
        """The header that carries the key; none for a provider on this machine that needs no key."""
        if self.key is None:
            return ()
        if self.facts.api == ANTHROPIC:
            return (("x-api-key", self.key),)
        return (("authorization", f"Bearer {self.key}"),)


def key_names(name: str) -> tuple[str, ...]:
    """The environment names that may hold this provider's key, in order."""
    known = KNOWN.get(name)
    return known.key_names if known else (f"{name.upper().replace('-', '_')}_API_KEY",)


class Providers:
    """The providers of this installation.

    `keys` maps environment names (ANTHROPIC_API_KEY) to values; empty ones count as unset. `upstreams` replaces
    a provider's base URL or makes a new provider; `apis` names the wire API of a new one (default: chat completions).
    Raises ConfigurationRefused.
    """

    def __init__(
        self,
        *,
        keys: Mapping[str, str | Secret],
        upstreams: Mapping[str, str] | None = None,
        apis: Mapping[str, str] | None = None,
    ) -> None:
        upstreams, apis = upstreams or {}, apis or {}
        problems = [f"provider {name}: {fault}" for name, url in upstreams.items() if (fault := _fault(url))]
        problems += [
            f"provider {name}: unknown wire API {api}" for name, api in apis.items() if api not in _SUFFIXES
        ]
        if problems:
            raise ConfigurationRefused(problems)
        plain = {name: _plain(value) for name, value in keys.items()}
        names = sorted({*KNOWN, *upstreams})
        self._all = {name: _provider(name, plain, upstreams.get(name), apis.get(name)) for name in names}

    def find(self, name: str) -> Provider | None:
        return self._all.get(name)

    def secrets(self) -> frozenset[str]:
        """Every key, for whoever must hide them."""
        return frozenset(provider.key for provider in self._all.values() if provider.key is not None)

    def facts(self, name: str) -> ProviderFacts | None:
        provider = self._all.get(name)
        return provider.facts if provider else None


def _provider(name: str, keys: Mapping[str, str], override: str | None, api: str | None) -> Provider:
    known = KNOWN.get(name) or Known(OPENAI, "", (), in_pi=False)
    wire = api or known.api
    base = (override or known.base).rstrip("/")
    key = next((keys[variable] for variable in key_names(name) if keys.get(variable)), None)
    credential = key is not None or (override is not None and _is_local(override))
    in_pi = known.in_pi and wire == known.api
    facts = ProviderFacts(name=name, api=wire, known_to_pi=in_pi, credential=credential)
    return Provider(facts, base + _SUFFIXES[wire], known.takes_options, key)


def _plain(value: str | Secret) -> str:
    return (value if isinstance(value, str) else value.get_secret_value()).strip()


def _fault(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "its upstream is no URL"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return "its upstream must be an http or https URL with a host"
    if parts.username or parts.password or parts.query or parts.fragment:
        return "its upstream may hold no user, password, query or fragment"
    return None


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
