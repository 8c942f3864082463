"""What an entry asks a run to keep within, key by key, and what a worker refuses of it."""

import pytest

from pidispatch.domain.bounds import bound_problems, bounds_of
from pidispatch.domain.triggers import Kind, Triggers, Work
from tests.support.timed import an_entry

NOTHING = {"cost_cap_micros": None, "allowed_models": None, "excluded_tools": None, "skills_dir": None}


@pytest.mark.parametrize(
    ("asked", "bounds"),
    [
        ({}, {}),
        ({"max_cost_micros": 500_000}, {"cost_cap_micros": 500_000}),
        ({"models": ("a/b", "c/d/e")}, {"allowed_models": ("a/b", "c/d/e")}),
        ({"exclude_tools": ("bash", "write")}, {"excluded_tools": ("bash", "write")}),
        ({"skills_dir": "/srv/sk\udcfflls"}, {"skills_dir": b"/srv/sk\xfflls"}),
        ({"skills_dir": "/srv/\ud800"}, {"skills_dir": b""}),  # no file has this name, so it is not there
    ],
)
def test_each_bound_of_an_entry_is_its_runs(asked, bounds):
    assert bounds_of(Work(Kind.LOCAL, **asked)) == NOTHING | bounds


def test_an_entry_can_only_lower_the_deployments_cap():
    over, under = an_entry("over", max_cost_micros=1_000_001), an_entry("under", max_cost_micros=1_000_000)

    (problem,) = bound_problems(Triggers((under, over)), "/t.json", max_cost_micros=1_000_000)

    told = "run.maxCostUsd must not be above PI_MAX_COST_USD, which is 1: an entry can only lower it"
    assert problem == f'/t.json:3: triggers[0] (id "over"): {told}'
    assert bound_problems(Triggers((over,)), "/t.json", max_cost_micros=None) == []
