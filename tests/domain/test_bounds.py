"""What an entry asks a run to keep within, key by key, and what a worker refuses of it."""

import pytest

from pidispatch.domain.ask import Ask
from pidispatch.domain.bounds import bound_problems, path_bytes
from pidispatch.domain.triggers import Triggers
from tests.domain.files.triggers.builders import CRON, changed, one
from tests.support.timed import an_entry


@pytest.mark.parametrize(
    ("asked", "ask"),
    [
        ({}, {}),
        ({"maxCostUsd": "0.50"}, {"cost_cap_micros": 500_000}),
        ({"models": ["a/b", "c/d/e"]}, {"allowed_models": ("a/b", "c/d/e")}),
        ({"excludeTools": ["bash", "write"]}, {"excluded_tools": ("bash", "write")}),
        ({"skillsDir": "/srv/sk\u00eflls"}, {"skills_dir": b"/srv/sk\xc3\xaflls"}),
    ],
)
def test_each_bound_of_an_entry_is_asked_of_its_runs(asked, ask):
    assert one(changed(CRON, run=asked)).work.ask == Ask(flow="tidy", **ask)


def test_a_path_is_what_the_file_system_has_or_one_that_is_not_there():
    assert path_bytes("/srv/sk\udcfflls") == b"/srv/sk\xfflls"
    assert path_bytes("/srv/\ud800") == b""  # no file has this name


def test_an_entry_can_only_lower_the_deployments_cap():
    over, under = an_entry("over", cost_cap_micros=1_000_001), an_entry("under", cost_cap_micros=1_000_000)

    (problem,) = bound_problems(Triggers((under, over)), "/t.json", max_cost_micros=1_000_000)

    told = "run.maxCostUsd must not be above PI_MAX_COST_USD, which is 1: an entry can only lower it"
    assert problem == f'/t.json:3: triggers[0] (id "over"): {told}'
    assert bound_problems(Triggers((over,)), "/t.json", max_cost_micros=None) == []
