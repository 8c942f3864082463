"""Say what a call came to, and how far the figure may be trusted."""

from collections.abc import Iterable, Sequence

from pidispatch.domain.providers.calls import CallEnd, Cost
from pidispatch.domain.providers.rates import CacheWrites, CostClass, Price, Rating, Tokens


def cost_of(price: Price | None, end: CallEnd) -> Cost:
    """The cost of a measured call, at the price that was found when it began: history is never priced anew."""
    if price is None or price.rating is Rating.UNKNOWN:
        return Cost(None, CostClass.UNRATED, None)
    if price.rating is Rating.FREE:
        return Cost(0, CostClass.UNRATED, price.version)
    if price.rating is Rating.PLAN:
        return Cost(0, CostClass.PLAN, price.version)
    used = tokens_of(end)
    # A request that was refused is not billed, whatever one that is answered costs by itself.
    billed = 200 <= end.status < 300 or used != Tokens()
    return Cost(price.cost(used) if billed else 0, CostClass.METERED, price.version)


def dearest_of(prices: Iterable[Price | None], end: CallEnd) -> Cost:
    """The cost of a call that any of these models may have answered. Without one of the prices there is no saying."""
    costs = [cost_of(price, end) for price in prices]
    unknown = [cost for cost in costs if cost.micros is None]
    return unknown[0] if unknown else max(costs, key=lambda cost: cost.micros or 0)


def most_of(prices: Sequence[Price | None], end: CallEnd, writes: CacheWrites, doubt: CostClass) -> Cost:
    """The most that a call came to which was not measured, of the class `doubt`: all of its models may be billed.

    Input that was not told may have been billed as the dearest kind that the request allows.
    """
    costs = [cost_of(price, end) for price in prices]
    if any(cost.micros is None for cost in costs):
        return Cost(None, CostClass.UNRATED, None)
    tokens = tokens_of(end)
    most = [
        price.most(tokens_in=tokens.asked, tokens_out=tokens.out, writes=writes)
        for price in prices
        if price is not None
    ]
    rated = [cost.cost_class for cost in costs]
    return Cost(
        costs[0].micros if end.input_told else sum(most),
        doubt if CostClass.METERED in rated else rated[0],
        costs[0].version,
    )


def tokens_of(end: CallEnd) -> Tokens:
    """What was used by the kinds that have rates of their own."""
    long = min(end.cache_write_1h, end.cache_write)
    return Tokens(
        fresh=end.tokens_in,
        out=end.tokens_out,
        cache_read=end.cache_read,
        cache_write=end.cache_write - long,
        cache_write_1h=long,
    )
