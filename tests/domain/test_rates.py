"""What a call came to, and the most that it may come to."""

from dataclasses import replace
from decimal import ROUND_CEILING, Decimal

from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.providers.rates import CacheWrites, Price, Rates, Rating, Tokens, no_price

SONNET = Price(
    Rating.PRICED,
    (
        (0, Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)),
        (200_000, Rates(6_000_000, 22_500_000, 600_000, 7_500_000, 12_000_000)),
    ),
    "test",
)

a_rate = st.integers(0, 100_000_000)
a_count = st.integers(0, 3_000_000)
some_rates = st.builds(Rates, a_rate, a_rate, a_rate, a_rate, a_rate)


@st.composite
def a_price(draw, highest=2_000_000):
    starts = sorted(draw(st.sets(st.integers(1, highest), max_size=3)))
    request = draw(st.integers(0, 1_000_000))
    tiers = [(start, replace(draw(some_rates), request=request)) for start in (0, *starts)]
    return Price(Rating.PRICED, tuple(tiers), "test")


KINDS = {
    CacheWrites.NONE: ("fresh", "cache_read"),
    CacheWrites.SHORT: ("fresh", "cache_read", "cache_write"),
    CacheWrites.LONG: ("fresh", "cache_read", "cache_write", "cache_write_1h"),
}


@st.composite
def some_tokens(draw, writes, counts=a_count):
    return Tokens(out=draw(counts), **{kind: draw(counts) for kind in KINDS[writes]})


def test_each_kind_of_token_has_its_rate():
    used = Tokens(fresh=1_000, out=500, cache_read=20_000, cache_write=2_000, cache_write_1h=1_000)

    assert SONNET.cost(used) == 3_000 + 7_500 + 6_000 + 7_500 + 6_000


def test_a_call_of_nothing_costs_nothing_but_the_request():
    priced = Price(Rating.PRICED, ((0, Rates(1, 1, 1, 1, 1, request=7_000)),), "test")

    assert SONNET.cost(Tokens()) == 0
    assert priced.cost(Tokens()) == priced.most(tokens_in=0, tokens_out=0, writes=CacheWrites.LONG) == 7_000


def test_a_part_of_a_micro_dollar_is_a_whole_one():
    assert SONNET.cost(Tokens(cache_read=1)) == 1
    assert SONNET.cost(Tokens(cache_read=10)) == 3
    assert SONNET.cost(Tokens(cache_read=11)) == 4


def test_a_tier_begins_with_the_first_token_above_it_and_is_for_all_of_them():
    assert SONNET.cost(Tokens(fresh=200_000)) == 600_000
    assert SONNET.cost(Tokens(fresh=200_001)) == 1_200_006
    assert SONNET.cost(Tokens(fresh=1, cache_read=200_000, out=2)) == 120_000 + 6 + 45


def test_every_token_in_counts_for_the_tier_and_none_that_comes_out():
    just_above = Tokens(fresh=50_000, cache_read=50_000, cache_write=50_000, cache_write_1h=50_001)

    assert just_above.asked == 200_001
    assert SONNET.cost(Tokens(fresh=1, out=300_000)) == 3 + 4_500_000
    assert SONNET.cost(just_above) == 300_000 + 30_000 + 375_000 + 600_012


def test_the_most_is_what_the_dearest_way_to_ask_costs():
    most = SONNET.most
    assert most(tokens_in=1_000, tokens_out=100, writes=CacheWrites.NONE) == 3_000 + 1_500
    assert most(tokens_in=1_000, tokens_out=100, writes=CacheWrites.SHORT) == 3_750 + 1_500
    assert most(tokens_in=1_000, tokens_out=100, writes=CacheWrites.LONG) == 6_000 + 1_500
    assert most(tokens_in=200_000, tokens_out=0, writes=CacheWrites.NONE) == 600_000
    assert most(tokens_in=200_001, tokens_out=0, writes=CacheWrites.NONE) == 1_200_006


def test_a_dearer_tier_below_counts_with_the_tokens_that_stay_in_it():
    cheaper_in_bulk = Price(Rating.PRICED, ((0, Rates(10**6, 5, 0, 0, 0)), (100, Rates(1, 5, 0, 0, 0))), "t")

    assert cheaper_in_bulk.most(tokens_in=5_000, tokens_out=0, writes=CacheWrites.NONE) == 100


@given(a_price(), st.sampled_from(CacheWrites), st.data(), a_count, a_count)
def test_no_call_costs_more_than_the_most(price, writes, data, more_in, more_out):
    used = data.draw(some_tokens(writes))

    assert price.cost(used) <= price.most(
        tokens_in=used.asked + more_in, tokens_out=used.out + more_out, writes=writes
    )


@given(a_price(6), st.sampled_from(CacheWrites), st.integers(0, 8), st.integers(0, 3))
def test_some_call_costs_the_most(price, writes, tokens_in, tokens_out):
    calls = [
        Tokens(out=tokens_out, **{kind: count}) for kind in KINDS[writes] for count in range(tokens_in + 1)
    ]

    most = price.most(tokens_in=tokens_in, tokens_out=tokens_out, writes=writes)

    assert most == max(map(price.cost, calls))


@given(a_price(), some_tokens(CacheWrites.LONG))
def test_a_cost_is_never_rounded_down(price, used):
    rates = [rates for above, rates in price.tiers if above < used.asked or above == 0][-1]
    exact = sum(
        Decimal(getattr(rates, kind)) * getattr(used, kind)
        for kind in ("fresh", "out", "cache_read", "cache_write", "cache_write_1h")
    )

    whole = (exact / 1_000_000).to_integral_value(ROUND_CEILING)

    assert price.cost(used) == whole + rates.request


@given(some_tokens(CacheWrites.LONG))
def test_what_nobody_is_billed_for_costs_nothing(used):
    free = no_price(Rating.FREE, "test")

    assert free.cost(used) == 0
    assert free.most(tokens_in=used.asked, tokens_out=used.out, writes=CacheWrites.LONG) == 0
