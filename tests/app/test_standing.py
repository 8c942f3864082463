"""The triggers in force: what is judged before it is used, and what stays when an edit is bad."""

import json

import pytest

from pidispatch.app.standing import StandingTriggers, not_read_yet
from pidispatch.domain.triggers import Triggers
from pidispatch.errors import ConfigurationRefused
from tests.support.timed import an_entry, the_file


def parse(content, file):
    """A file of patterns only."""
    try:
        patterns = json.loads(content)
    except ValueError:
        raise ConfigurationRefused([f"{file}: is not JSON"]) from None
    return the_file(*(an_entry(f"s{n}", each, index=n) for n, each in enumerate(patterns)))


@pytest.fixture
def file(tmp_path):
    return tmp_path / "triggers.json"


def test_without_a_file_there_are_no_triggers():
    standing = StandingTriggers(None, parse)
    standing.load()

    assert (standing.current(), standing.problem) == (Triggers(), None)


def test_a_pattern_that_is_never_due_refuses_the_file_with_its_place(file):
    file.write_text('["0 0 * * *", "0 0 31 2 *", "0 0 * *"]')

    with pytest.raises(ConfigurationRefused) as refusal:
        StandingTriggers(file, parse).load()

    assert refusal.value.problems == (
        f'{file}:4: trigger at index 1 ("s1"): on.pattern has a wrong day-of-month, or a day that none of its months has',
        f'{file}:5: trigger at index 2 ("s2"): on.pattern has 4 fields; it needs 5, or 6 with seconds first',
    )


def test_a_bad_edit_keeps_the_last_good_set_and_says_so(file):
    file.write_text('["0 0 * * *"]')
    standing = StandingTriggers(file, parse)
    standing.load()
    good = standing.current()

    for bad in ('["0 0 31 2 *"]', "{"):
        file.write_text(bad)
        assert standing.current() == good
        assert standing.problem is not None

    file.write_text('["5 0 * * *"]')
    assert standing.current() != good
    assert standing.problem is None


def test_a_file_that_is_not_there_is_refused_at_the_start(file):
    with pytest.raises(ConfigurationRefused, match="does not exist"):
        StandingTriggers(file, parse).load()


def test_a_version_that_reads_no_triggers_says_so_instead_of_ignoring_them():
    with pytest.raises(ConfigurationRefused, match="does not read triggers yet"):
        not_read_yet(b"{}", "triggers.json")
