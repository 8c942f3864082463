"""Know each provider by name: its wire API, where it answers, which variables may hold its key."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import ip_address

from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES


@dataclass(frozen=True, slots=True)
class Known:
    """One row of the table. `base` is written as pi's `baseUrl` is: without `/v1` for messages, with it for the others.

    `in_pi` says that pi's own entry of this name speaks `api`; where pi would speak another API (mistral:
    conversations) its models must be written out, and so must those whose name begins with one of `elsewhere`.
    `takes_options`: `stream_options` is allowed.
    """

    api: str
    base: str
    key_names: tuple[str, ...]
    in_pi: bool = True
    takes_options: bool = True
    elsewhere: tuple[str, ...] = ()


# Names, addresses and key variables as in pi 1.6.0 (docs/providers.md and its model table).
KNOWN: Mapping[str, Known] = {
    "anthropic": Known(ANTHROPIC, "https://api.anthropic.com", ("ANTHROPIC_API_KEY",)),
    "baseten": Known(OPENAI, "https://inference.baseten.co/v1", ("BASETEN_API_KEY",)),
    "cerebras": Known(OPENAI, "https://api.cerebras.ai/v1", ("CEREBRAS_API_KEY",)),
    "deepseek": Known(OPENAI, "https://api.deepseek.com", ("DEEPSEEK_API_KEY",)),
    "groq": Known(OPENAI, "https://api.groq.com/openai/v1", ("GROQ_API_KEY",)),
    "huggingface": Known(OPENAI, "https://router.huggingface.co/v1", ("HF_TOKEN",)),
    "kimi-coding": Known(OPENAI, "https://api.kimi.com/coding/v1", ("KIMI_API_KEY",)),
    "meta": Known(RESPONSES, "https://api.meta.ai/v1", ("META_API_KEY",)),
    "minimax": Known(ANTHROPIC, "https://api.minimax.io/anthropic", ("MINIMAX_API_KEY",)),
    "mistral": Known(
        OPENAI, "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), in_pi=False, takes_options=False
    ),
    "moonshotai": Known(OPENAI, "https://api.moonshot.ai/v1", ("MOONSHOT_API_KEY",)),
    "nvidia": Known(OPENAI, "https://integrate.api.nvidia.com/v1", ("NVIDIA_API_KEY",)),
    "openai": Known(RESPONSES, "https://api.openai.com/v1", ("OPENAI_API_KEY",)),
    "openrouter": Known(
        OPENAI,
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        elsewhere=("anthropic/", "~anthropic/"),  # messages, by pi
    ),
    "together": Known(OPENAI, "https://api.together.ai/v1", ("TOGETHER_API_KEY",)),
    "xai": Known(RESPONSES, "https://api.x.ai/v1", ("XAI_API_KEY",)),
    "xiaomi": Known(OPENAI, "https://api.xiaomimimo.com/v1", ("XIAOMI_API_KEY",)),
    "zai": Known(OPENAI, "https://api.z.ai/api/coding/paas/v4", ("ZAI_API_KEY",)),
}

_URL = re.compile(
    r"https?://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>[0-9]{1,5}))?(?:/[!$-;=A-Z_a-z~]*)?"
)
# A spelling that is not among these is taken for another machine's, which needs a key: the safe side.
_LOOPBACK = re.compile(r"localhost|127(?:\.(?:0|[1-9][0-9]{0,2})){3}|\[(?:0*:){2,7}0*1\]")
# https://www.rfc-editor.org/rfc/rfc6761, rfc6762, rfc8375; and what Docker calls the machine that it runs on.
_PRIVATE_ENDINGS = (".localhost", ".local", ".internal", ".home.arpa", ".lan")
URL_WANTED = "an http:// or https:// address without user, password, query or fragment"


def key_names(name: str) -> tuple[str, ...]:
    """The environment names that may hold this provider's key, in order."""
    known = KNOWN.get(name)
    return known.key_names if known else (f"{name.upper().replace('-', '_').replace('.', '_')}_API_KEY",)


def all_key_names(others: Iterable[str] = ()) -> frozenset[str]:
    """The names of every provider known, and of these."""
    return frozenset(variable for name in (*KNOWN, *others) for variable in key_names(name))


def is_base_url(url: str) -> bool:
    found = _URL.fullmatch(url)
    return found is not None and (found["port"] is None or 0 < int(found["port"]) < 65_536)


def is_loopback(url: str) -> bool:
    """Whether a base URL leads to this machine by its own name or number."""
    found = _URL.fullmatch(url)
    return found is not None and _LOOPBACK.fullmatch(found["host"].lower()) is not None


def is_local(url: str) -> bool:
    """Whether a base URL leads to this machine or a private network: by number, or by a name that no public one has."""
    found = _URL.fullmatch(url)
    if found is None:
        return False
    host = found["host"].lower().strip("[]")
    try:
        return not ip_address(host).is_global
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_ENDINGS)


def is_model(text: str) -> bool:
    """`provider/model`, where the model's name may hold slashes."""
    provider, slash, model = text.partition("/")
    return bool(slash and provider and model) and text.isprintable() and " " not in text
