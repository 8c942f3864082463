"""Find prices in the data that the package genai-prices brings along; nothing is fetched."""

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from pidispatch.domain.money import MICROS
from pidispatch.domain.providers.rates import Price, Rates, Rating, lacks_request_fee, rates_of
from pidispatch.ports import Clock

if TYPE_CHECKING:
    from genai_prices.types import MatchLogic, ModelInfo, ModelPrice, Provider, TieredPrices


NAME_MAX = 200
HUGGINGFACE = "huggingface"

# Our name of a provider, which is pi's, and the one in the data. A provider that is not here has no price there.
BOOKS: Mapping[str, str] = {
    "anthropic": "anthropic",
    "baseten": "baseten",
    "cerebras": "cerebras",
    "deepseek": "deepseek",
    "groq": "groq",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshotai": "moonshotai",
    "openai": "openai",
    "openrouter": "openrouter",
    "together": "together",
    "xai": "x-ai",
    "zai": "zai",
}
# What may follow the beginning of a name by which the data knows a model: its date, or that it is the newest.
_SNAPSHOT = re.compile(r"(?:-preview)?(?:-latest|[-@]?(?:\d{4}|\d{8}|\d{4}-\d{2}-\d{2}))?")
# Sound and pictures have prices of their own, which a count of tokens does not tell apart.
_OTHER_MEDIA = re.compile(r"audio|realtime|image|transcribe|tts|voice|speech|video")


@dataclass(frozen=True, slots=True)
class _Book:
    """The models of one provider: those known by a whole name, and those known by what a name is like."""

    named: dict[str, "ModelInfo"] = field(default_factory=dict)
    alike: list[tuple["MatchLogic", "ModelInfo"]] = field(default_factory=list)

    def find(self, name: str) -> "ModelInfo | None":
        known = self.named.get(name)
        return known or next((model for clause, model in self.alike if _means(clause, name)), None)


class GenaiPrices:
    """Implements `Prices`. The figures are those in force at `clock`; any thread may ask.

    A model must be named, or be a dated snapshot of one that is: where the data would take any name that begins so,
    this does not, since a variant of a model may cost more.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._books: dict[str, _Book] | None = None
        self._version = ""

    def warm(self) -> None:
        """Load the data, which takes a quarter of a second, before somebody waits for it."""
        self._all()

    @property
    def version(self) -> str:
        self._all()
        return self._version

    def find(self, provider: str, model: str) -> Price | None:
        identity, name = _place(provider.lower(), model.lower())
        book = self._all().get(identity)
        if book is None or len(name) > NAME_MAX or _OTHER_MEDIA.search(name):
            return None
        found = book.find(name)
        if found is None or not found.prices:
            return None
        tiers = tiers_of(found.get_prices(self._clock()), f"{provider}/{name}")
        if not tiers:
            return None
        price = Price(Rating.PRICED, tiers, self._version, window=found.context_window)
        return None if lacks_request_fee(name, price) else price

    def _all(self) -> dict[str, _Book]:
        if self._books is None:
            with self._lock:
                self._books = self._books or self._load()
        return self._books

    def _load(self) -> dict[str, _Book]:
        # Late, since it takes a quarter of a second. From `data`, not by `get_snapshot`: that may be a fetched one.
        from genai_prices import __version__  # noqa: PLC0415
        from genai_prices.data import providers  # noqa: PLC0415

        self._version = f"genai-prices {__version__}"
        return {provider.id: _book(provider) for provider in providers}


def _place(provider: str, name: str) -> tuple[str, str]:
    """The book and the name in it. Hugging Face resells: its names end in who answers (`model:groq`)."""
    if provider == HUGGINGFACE:
        model, _, reseller = name.rpartition(":")
        return f"{HUGGINGFACE}_{reseller}", model
    return BOOKS.get(provider, ""), name


def _book(provider: "Provider") -> _Book:
    book = _Book()
    for model in provider.models:
        for clause in _clauses(model.match):
            whole = getattr(clause, "equals", None)
            if isinstance(whole, str):
                book.named.setdefault(whole.lower(), model)
            else:
                book.alike.append((clause, model))
    for model in provider.models:
        if model.is_match(model.id):
            book.named.setdefault(model.id.lower(), model)
    return book


def _clauses(match: "MatchLogic") -> Iterator["MatchLogic"]:
    """The alternatives of which one is enough."""
    either = getattr(match, "or_", None)
    if either is None:
        yield match
        return
    for clause in either:
        yield from _clauses(clause)


def _means(clause: "MatchLogic", name: str) -> bool:
    pattern = getattr(clause, "regex", None)
    if isinstance(pattern, str):
        return pattern.startswith("^") and pattern.endswith("$") and re.search(pattern, name) is not None
    start = getattr(clause, "starts_with", None)
    if not isinstance(start, str) or not name.startswith(start.lower()):
        return False
    return _SNAPSHOT.fullmatch(name.removeprefix(start.lower())) is not None


Tiers = tuple[tuple[int, Rates], ...]

_TOKENS = {
    "input_mtok": "fresh",
    "output_mtok": "out",
    "cache_read_mtok": "cache_read",
    "cache_write_mtok": "cache_write",
    "cache_write_1h_mtok": "cache_write_1h",
}
_REASONING = "output_reasoning_mtok"
_REQUESTS = "requests_kcount"
# What a provider's own tools charge, which no count of tokens shows.
_TOOLS = {"web_searches_kcount", "storage_searches_kcount"}

_Found = dict[str, "Decimal | TieredPrices"]


def tiers_of(prices: "ModelPrice", model: str) -> Tiers | None:
    """None where a price is missing, is nothing, or is of what we cannot count (sound, pictures, pages)."""
    found: _Found = {key: value for key, value in vars(prices).items() if value is not None}
    if not {"input_mtok", "output_mtok"} <= found.keys() <= {*_TOKENS, *_TOOLS, _REASONING, _REQUESTS}:
        return None
    starts = {0} | {tier.start for value in found.values() for tier in getattr(value, "tiers", ())}
    tiers = tuple((start, _rates(found, start, model)) for start in sorted(starts))
    # The data has nothing that is free by a figure of 0, so one would be a gap; free is what an operator says is.
    return tiers if all(rates.fresh and rates.out for _, rates in tiers) else None


def _rates(found: _Found, start: int, model: str) -> Rates:
    """The rates of a call with more tokens in than `start`."""
    amounts = {ours: _micros(found[key], start) for key, ours in _TOKENS.items() if key in found}
    if _REASONING in found:
        amounts["out"] = max(amounts["out"], _micros(found[_REASONING], start))
    request = _up(_at(found[_REQUESTS], start) / 1000) if _REQUESTS in found else 0
    return rates_of(model, **amounts, request=request)


def _micros(value: "Decimal | TieredPrices", start: int) -> int:
    return _up(_at(value, start))


def _at(value: "Decimal | TieredPrices", start: int) -> Decimal:
    """A tier's `start` is the last count that is not in it yet."""
    if isinstance(value, Decimal):
        return value
    return [value.base, *(tier.price for tier in value.tiers if tier.start <= start)][-1]


def _up(amount: Decimal) -> int:
    return int((amount * MICROS).to_integral_value(ROUND_CEILING))
