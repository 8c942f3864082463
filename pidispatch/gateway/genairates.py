"""Turn a model's prices as genai-prices has them into our rates."""

from decimal import ROUND_CEILING, Decimal
from typing import TYPE_CHECKING

from pidispatch.domain.money import MICROS
from pidispatch.domain.rates import Rates, rates_of

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice, TieredPrices

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
