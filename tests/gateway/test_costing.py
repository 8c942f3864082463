"""The cost of a call, and its class."""

from dataclasses import replace

import pytest

from pidispatch.domain.providers.calls import CallEnd, Cost
from pidispatch.domain.providers.rates import CacheWrites, CostClass, Price, Rates, Rating, no_price
from pidispatch.gateway.calls.costing import cost_of, dearest_of, most_of

PRICED = Price(
    Rating.PRICED, ((0, Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000, 500)),), "book 1"
)
END = CallEnd(200, "stop", tokens_in=100, tokens_out=10, cache_read=1_000, cache_write=30, cache_write_1h=20)

ASSUMED = CostClass.ASSUMED


def test_a_measured_call_at_a_known_price_is_metered():
    micros = 300 + 150 + 300 + 38 + 120 + 500

    assert cost_of(PRICED, END) == Cost(micros, CostClass.METERED, "book 1")


@pytest.mark.parametrize("measured", [True, False])
def test_what_nobody_is_billed_for_costs_nothing(measured):
    end = CallEnd(200, "stop", tokens_in=10**9, measured=measured)

    assert cost_of(no_price(Rating.PLAN, "file"), end) == Cost(0, CostClass.PLAN, "file")
    assert cost_of(no_price(Rating.FREE, "file"), end) == Cost(0, CostClass.UNRATED, "file")


def test_without_a_price_the_cost_is_not_known():
    assert cost_of(None, END) == Cost(None, CostClass.UNRATED, None)
    assert cost_of(no_price(Rating.UNKNOWN, "x"), END) == Cost(None, CostClass.UNRATED, None)


@pytest.mark.parametrize("status", [0, 402, 429, 500])
def test_a_refused_request_costs_nothing(status):
    assert cost_of(PRICED, CallEnd(status, "error")) == Cost(0, CostClass.METERED, "book 1")


def test_what_was_not_measured_cost_the_dearest_that_it_may_have_been():
    unknown = CallEnd(0, "error", tokens_in=100, tokens_out=10, measured=False)

    assert most_of([PRICED], unknown, CacheWrites.NONE, ASSUMED) == Cost(300 + 150 + 500, ASSUMED, "book 1")
    assert most_of([PRICED], unknown, CacheWrites.SHORT, ASSUMED) == Cost(375 + 150 + 500, ASSUMED, "book 1")
    assert most_of([PRICED, PRICED], unknown, CacheWrites.LONG, ASSUMED) == Cost(2 * 1250, ASSUMED, "book 1")


def test_input_that_was_told_costs_what_it_was_told_to_be():
    told = replace(END, tokens_out=500, measured=False, input_told=True)

    assert most_of([PRICED], told, CacheWrites.LONG, ASSUMED) == Cost(
        300 + 7500 + 300 + 38 + 120 + 500, ASSUMED, "book 1"
    )


def test_what_was_not_measured_has_no_cost_without_a_price_and_none_in_a_plan():
    unknown = CallEnd(0, "error", tokens_in=100, measured=False)

    assert most_of([PRICED, None], unknown, CacheWrites.NONE, ASSUMED).micros is None
    assert most_of([no_price(Rating.PLAN, "file")], unknown, CacheWrites.LONG, ASSUMED) == Cost(
        0, CostClass.PLAN, "file"
    )


def test_more_written_for_an_hour_than_written_at_all_is_not_counted_twice():
    odd = CallEnd(200, "stop", cache_write=10, cache_write_1h=30)

    assert cost_of(PRICED, odd).micros == 60 + 500


def test_a_call_that_several_models_may_have_answered_costs_what_the_dearest_does():
    end = CallEnd(200, "stop", tokens_in=1_000_000, tokens_out=0)
    cheap, dear = (Price(Rating.PRICED, ((0, Rates(rate, 0, 0, 0, 0)),), "v") for rate in (2, 7))

    assert dearest_of([cheap, dear], end) == cost_of(dear, end)
    assert dearest_of([cheap], end) == cost_of(cheap, end)
    assert dearest_of([cheap, None], end).micros is None
