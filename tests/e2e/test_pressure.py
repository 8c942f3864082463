"""Real pi, and a provider that says it is busy."""

import json

import pytest

from tests.e2e.installation import eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


@pytest.fixture
def cancelled_in_the_end(installation):
    """Runs that wait for a provider would wait for an hour."""
    yield installation
    installation.pidispatch("cancel", "--all")


def test_a_provider_that_is_busy_costs_a_run_time_and_nothing_else(cancelled_in_the_end):
    installation = cancelled_in_the_end
    before = len(installation.provider.asked)

    answer = installation.run(installation.repository("busy"), model="busy")

    def statuses():
        return [asked.status for asked in installation.provider.asked[before:]]

    assert (answer["outcome"], answer["attempt"], answer["turns"]) == ("completed", 1, 4), answer
    assert installation.record(answer["public_id"])["calls"] == 4  # pi never knew: it tried nothing again
    assert statuses() == [429, 200, 200, 200, 200]

    # A window that is closed for an hour ends the run without a bill, and the next one does not start.
    shut = installation.run(installation.repository("shut"), model="window", wait=False)["public_id"]
    eventually(lambda: statuses()[5:] == [429], "the first is refused", seconds=60)
    # Another run waits a moment for what only the first was told, then it knocks as well: now it is said of all.
    second = installation.run(installation.repository("second"), model="window", wait=False)["public_id"]

    def cause(run):
        return installation.one(
            "SELECT coalesce(cause, state) AS cause FROM runs WHERE public_id = :id", id=run
        )["cause"]

    for run in (shut, second):
        eventually(
            lambda run=run: cause(run) == "provider-failed", "it waits for another attempt", seconds=90
        )
    later = installation.run(installation.repository("later"), model="window", wait=False)["public_id"]
    eventually(lambda: cause(later) == "provider-busy", "the next run waits for the provider", seconds=20)

    assert statuses()[5:] == [429, 429]  # whatever pi tried meanwhile
    assert (
        "scripted/window" in json.loads(installation.pidispatch("status", "--json").stdout)["busy_providers"]
    )
    assert "its provider is busy (provider-busy)" in installation.pidispatch("explain", later).stdout

    other = installation.run(installation.repository("other"))  # of another model, which nobody holds back
    assert other["outcome"] == "completed", other
