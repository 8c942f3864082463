"""Dollars as text, micro-dollars as numbers."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.money import MICROS, USD_MAX, dollars, micros_of, micros_or_zero_of


@given(st.integers(1, USD_MAX * MICROS))
def test_every_amount_reads_back(micros):
    assert micros_of(dollars(micros)) == micros


@given(st.text(max_size=12) | st.text(alphabet="0123456789.,-+eE $", max_size=10))
def test_what_is_read_is_exactly_what_was_written(text):
    micros = micros_of(text)

    if micros is not None:
        assert Decimal(text) * MICROS == micros
        assert 0 < micros <= USD_MAX * MICROS


@pytest.mark.parametrize(
    "text",
    ["", "0", "0.0", "0.0000001", "1.1234567", "1000000.000001", "1000001", "-1", "+1", "1e2", "1E2", "1,5", "1.", ".5",
     "05", " 5", "5 ", "5\n", "$5", "NaN", "Infinity", "٣", "1_000", "0x10"],
)  # fmt: skip
def test_what_is_no_amount_is_none(text):
    assert micros_of(text) is None


@pytest.mark.parametrize(
    ("text", "micros"),
    [("1", 1_000_000), ("0.000001", 1), ("2.50", 2_500_000), ("1000000", 10**12), ("1000000.000000", 10**12)],
)
def test_amounts_are_exact(text, micros):
    assert micros_of(text) == micros


def test_negative_adjustments_can_be_shown():
    assert (dollars(-1_500_000), dollars(0)) == ("-1.5", "0")


def test_nothing_is_an_amount_only_where_it_is_asked_for():
    assert [micros_or_zero_of(text) for text in ("0", "0.000000", "1.5", "-0", "")] == [
        0,
        0,
        1_500_000,
        None,
        None,
    ]
    assert micros_of("0.0") is None
