"""The ids of a schedule's runs: at its instants and by hand."""

from datetime import UTC, datetime

import pytest

from pidispatch.domain.runs.names import manual_run_id, scheduled_run_id
from pidispatch.domain.triggers.grammar.cron import ID_MAX

MOMENT = datetime(2026, 11, 29, 22, 8, 59, tzinfo=UTC)


def test_a_run_by_hand_has_its_minute_in_its_id():
    assert manual_run_id("nightly", MOMENT) == "manual:nightly:2026-11-29T22:08"
    assert manual_run_id("nightly", MOMENT.replace(second=0)) == manual_run_id("nightly", MOMENT)


@pytest.mark.parametrize("make", [manual_run_id, scheduled_run_id])
@pytest.mark.parametrize("length", [1, 176, 177, 179, 180, ID_MAX])
def test_an_id_of_any_length_makes_a_run_of_its_own_that_fits_its_column(make, length):
    name = make("n" * length, MOMENT)

    assert len(name) <= 200
    assert name != make("n" * (length - 1) + "x", MOMENT)
