"""Name the keys of `settings.json`, and recognise what was meant to be one of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from pidispatch.domain.limits.scopes import trim
from pidispatch.domain.money import micros_of
from pidispatch.domain.text.jsonfile import SAFE_MAX, Node, Number
from pidispatch.domain.text.lookalikes import skeleton

COLUMN_MAX = 2**31 - 1  # what an integer column holds
CONCURRENCY_MAX = 10


class SettingKind(StrEnum):
    WORD = "word"
    WHOLE = "whole"
    AMOUNT = "amount"
    PROFILES = "profiles"


@dataclass(frozen=True, slots=True)
class SettingKey:
    """One key of the file: the field of `Overlay` it fills, and what it accepts."""

    name: str
    attribute: str
    kind: SettingKind
    maximum: int = SAFE_MAX

    @property
    def wanted(self) -> str:
        match self.kind:
            case SettingKind.WORD:
                return "a name without spaces that does not begin with a dash"
            case SettingKind.WHOLE if self.maximum == SAFE_MAX:
                return "an integer >= 1"
            case SettingKind.WHOLE:
                return f"an integer from 1 to {self.maximum}"
            case SettingKind.AMOUNT:
                return "an amount of US dollars above 0 and up to 1000000, with at most 6 decimals"
            case SettingKind.PROFILES:
                return "an object from names (letters, digits, `.`, `_`, `-`) to absolute paths"


KEYS: Mapping[str, SettingKey] = MappingProxyType(
    {
        key.name: key
        for key in (
            SettingKey("provider", "provider", SettingKind.WORD),
            SettingKey("model", "model", SettingKind.WORD),
            SettingKey("maxTurns", "max_turns", SettingKind.WHOLE, COLUMN_MAX),
            SettingKey("maxTokens", "max_tokens", SettingKind.WHOLE),
            SettingKey("dailyCap", "daily_cap", SettingKind.WHOLE),
            SettingKey("weeklyCap", "weekly_cap", SettingKind.WHOLE),
            SettingKey("monthlyCap", "monthly_cap", SettingKind.WHOLE),
            SettingKey("softHoldPct", "soft_hold_pct", SettingKind.WHOLE, 99),
            SettingKey("dailyTokenCap", "daily_token_cap", SettingKind.WHOLE),
            SettingKey("concurrency", "concurrency", SettingKind.WHOLE, CONCURRENCY_MAX),
            SettingKey("maxCostUsd", "max_cost_micros", SettingKind.AMOUNT),
            SettingKey("dailyCostUsd", "daily_cost_micros", SettingKind.AMOUNT),
            SettingKey("weeklyCostUsd", "weekly_cost_micros", SettingKind.AMOUNT),
            SettingKey("monthlyCostUsd", "monthly_cost_micros", SettingKind.AMOUNT),
            SettingKey("secretProfiles", "secret_profiles", SettingKind.PROFILES),
        )
    }
)

_SKELETONS = {skeleton(key.name): key.name for key in KEYS.values()}
_ENV_PREFIXES = (skeleton("PI"), skeleton("PIDISPATCH"))


def key_meant(name: str) -> str | None:
    """The key that an unknown `name` is a spelling of: case, separators, look-alikes, the variable's name."""
    if len(name) > 200:
        return None
    eye = skeleton(name)
    for prefix in ("", *_ENV_PREFIXES):
        if eye.startswith(prefix) and (found := _SKELETONS.get(eye[len(prefix) :])):
            return found
    return None


def accepted(key: SettingKey, node: Node) -> "int | str | Mapping[str, str] | None":
    """The value of a key, typed (amounts in micro-dollars); None when it is not accepted. null is not."""
    return _READERS[key.kind](key, node)


def _word(_key: SettingKey, node: Node) -> str | None:
    text = node.value
    if isinstance(text, str) and text and text.isprintable() and " " not in text and not text.startswith("-"):
        return text
    return None


def _whole(key: SettingKey, node: Node) -> int | None:
    value = node.value.whole() if isinstance(node.value, Number) else None
    return value if value is not None and 1 <= value <= key.maximum else None


def _amount(_key: SettingKey, node: Node) -> int | None:
    text = node.value.text if isinstance(node.value, Number) else node.value
    return micros_of(text) if isinstance(text, str) else None


def _profiles(_key: SettingKey, node: Node) -> Mapping[str, str] | None:
    if not isinstance(node.value, dict):
        return None
    profiles = {name: each.value for name, each in node.value.items() if isinstance(each.value, str)}
    fine = len(profiles) == len(node.value) and all(
        is_profile_name(name) and path.startswith("/") and path.isprintable() and path == trim(path)
        for name, path in profiles.items()
    )
    return MappingProxyType(profiles) if fine else None


def is_profile_name(text: str) -> bool:
    return bool(text) and text.isascii() and all(char.isalnum() or char in "._-" for char in text)


_READERS: Mapping[SettingKind, Callable[[SettingKey, Node], "int | str | Mapping[str, str] | None"]] = (
    MappingProxyType(
        {
            SettingKind.WORD: _word,
            SettingKind.WHOLE: _whole,
            SettingKind.AMOUNT: _amount,
            SettingKind.PROFILES: _profiles,
        }
    )
)
