"""Hold what a model costs, and reckon what a call of it came to or may come to at most."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

MILLION = 1_000_000


class CostClass(StrEnum):
    """How far a figure of dollars may be trusted.

    metered: every call measured, at a known price; assumed: at most this much, since a call ended without its usage;
    estimate: a provider reported a usage that cannot be true; floor: at least this much; plan: a subscription covers it;
    unrated: there is no price.
    """

    METERED = "metered"
    ASSUMED = "assumed"
    ESTIMATE = "estimate"
    FLOOR = "floor"
    PLAN = "plan"
    UNRATED = "unrated"


class Doubt(StrEnum):
    """Why what a provider reported cannot be what the call used."""

    INPUT_TOO_SMALL = "input-too-small"
    OUTPUT_TOO_SMALL = "output-too-small"
    ABOVE_THE_WINDOW = "above-the-window"


class Rating(StrEnum):
    """What is known of a model's price: `free` and `plan` only by an operator's explicit word."""

    PRICED = "priced"
    FREE = "free"
    PLAN = "plan"
    UNKNOWN = "unknown"


class CacheWrites(StrEnum):
    """What a request may have written to the provider's cache, and at which price."""

    NONE = "none"
    SHORT = "5m"
    LONG = "1h"


@dataclass(frozen=True, slots=True)
class Tokens:
    """What one call used. `fresh` is tokens in that came from no cache and went to none; `cache_write` is for five
    minutes, `cache_write_1h` for an hour. `out` includes reasoning.
    """

    fresh: int = 0
    out: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_1h: int = 0

    @property
    def asked(self) -> int:
        """All tokens in: what long-context tiers are chosen by."""
        return self.fresh + self.cache_read + self.cache_write + self.cache_write_1h


@dataclass(frozen=True, slots=True)
class Rates:
    """Micro-dollars for a million tokens of each kind, and for one request."""

    fresh: int
    out: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    request: int = 0


def rates_of(
    model: str,
    *,
    fresh: int,
    out: int,
    cache_read: int | None = None,
    cache_write: int | None = None,
    cache_write_1h: int | None = None,
    request: int = 0,
) -> Rates:
    """Rates where those of the cache may be unknown (None): nothing is then cheaper than a token that met no cache.

    A claude model's tokens that are kept for an hour cost twice as much (docs.anthropic.com, prompt caching).
    """
    write = fresh if cache_write is None else cache_write
    long = max(write, 2 * fresh) if "claude" in model.lower() else write
    return Rates(
        fresh=fresh,
        out=out,
        cache_read=fresh if cache_read is None else cache_read,
        cache_write=write,
        cache_write_1h=long if cache_write_1h is None else cache_write_1h,
        request=request,
    )


@dataclass(frozen=True, slots=True)
class Price:
    """What one model costs. `tiers` are (tokens in above which, rates), ascending, the first at 0.

    A tier's rates are for all tokens of a call that asks with more than that many. `version` names the source of the
    figures, as records keep it. A free or planned model has one tier of zeros. `window`: tokens that the model reads at
    most, where the source says it.
    """

    rating: Rating
    tiers: Sequence[tuple[int, Rates]]
    version: str
    window: int | None = None

    def cost(self, tokens: Tokens) -> int:
        """Micro-dollars of a call that used these, rounded up."""
        return _amount([rates for _, rates in self._within(tokens.asked)][-1], tokens)

    def most(self, *, tokens_in: int, tokens_out: int, writes: CacheWrites) -> int:
        """Micro-dollars that a call may come to with at most so many tokens, however its input is split up.

        A call with fewer tokens than it may have falls into any of the lower tiers, so all of them are looked at, each
        with as many tokens as it takes. With NONE a call whose provider writes to its cache by itself may pass it.
        """
        return max(
            _amount(rates, _dearest(rates, most_in, tokens_out, writes))
            for most_in, rates in self._within(tokens_in)
        )

    def _within(self, tokens_in: int) -> Iterator[tuple[int, Rates]]:
        """The tiers that a call of at most so many tokens in may be in, each with the most tokens that stay in it."""
        ends = [above for above, _ in self.tiers[1:]] + [tokens_in]
        for (above, rates), end in zip(self.tiers, ends, strict=True):
            if above == 0 or above < tokens_in:
                yield min(end, tokens_in), rates


# Their names say that they search by themselves: Perplexity's, OpenAI's, OpenRouter's `:online`, Groq's compound.
_SEARCHES = re.compile(r"sonar|(?<!re)search|deep-?research|[-:]online(?![a-z])|compound")


def lacks_request_fee(model: str, price: Price) -> bool:
    """Whether this model searches for every request, and the price says nothing of what that costs."""
    return (
        price.rating is Rating.PRICED
        and _SEARCHES.search(model.lower()) is not None
        and not all(rates.request for _, rates in price.tiers)
    )


def no_price(rating: Rating, version: str) -> Price:
    """What a model costs that nobody is billed for by the call: it is free, or in a plan."""
    return Price(rating, ((0, Rates(0, 0, 0, 0, 0)),), version)


def _dearest(rates: Rates, tokens_in: int, tokens_out: int, writes: CacheWrites) -> Tokens:
    kinds = {"fresh": rates.fresh, "cache_read": rates.cache_read}
    if writes is not CacheWrites.NONE:
        kinds["cache_write"] = rates.cache_write
    if writes is CacheWrites.LONG:
        kinds["cache_write_1h"] = rates.cache_write_1h
    return Tokens(out=tokens_out, **{max(kinds, key=lambda kind: kinds[kind]): tokens_in})


def _amount(rates: Rates, tokens: Tokens) -> int:
    millionths = (
        rates.fresh * tokens.fresh
        + rates.out * tokens.out
        + rates.cache_read * tokens.cache_read
        + rates.cache_write * tokens.cache_write
        + rates.cache_write_1h * tokens.cache_write_1h
    )
    return -(-millionths // MILLION) + rates.request
