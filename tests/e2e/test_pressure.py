"""Real pi, and a provider that says it is busy."""

import json

import pytest

from tests.e2e.installation import eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


def test_a_provider_that_is_busy_costs_a_run_time_and_nothing_else(fresh):
    fresh.start()
    folder = fresh.repository("busy")

    answer = fresh.run(folder, model="busy")

    assert (answer["outcome"], answer["attempt"], answer["turns"]) == ("completed", 1, 4), answer
    assert fresh.record(answer["public_id"])["calls"] == 4  # pi never knew: it tried nothing again
    assert [asked.status for asked in fresh.provider.asked] == [429, 200, 200, 200, 200]

    # A window that is closed for an hour ends the run without a bill, and the next one does not start.
    shut = fresh.run(fresh.repository("shut"), model="window", wait=False)
    cause = "SELECT coalesce(cause, state) AS cause FROM runs WHERE public_id = :id"
    eventually(
        lambda: fresh.one(cause, id=shut["public_id"])["cause"] == "provider-failed",
        "the run waits for another attempt",
        seconds=60,
    )
    # Another run waits a moment for what only the first was told, then it knocks as well: now it is said of all.
    second = fresh.run(fresh.repository("second"), model="window", wait=False)
    eventually(
        lambda: fresh.one(cause, id=second["public_id"])["cause"] == "provider-failed",
        "the second run is refused as well",
        seconds=90,
    )
    later = fresh.run(fresh.repository("later"), model="window", wait=False)
    eventually(
        lambda: fresh.one(cause, id=later["public_id"])["cause"] == "provider-busy",
        "the next run waits for the provider",
        seconds=20,
    )

    assert [asked.status for asked in fresh.provider.asked[5:]] == [429, 429]  # whatever pi tried meanwhile
    assert "scripted/window" in json.loads(fresh.pidispatch("status", "--json").stdout)["busy_providers"]
    assert "its provider is busy (provider-busy)" in fresh.pidispatch("explain", later["public_id"]).stdout

    other = fresh.run(fresh.repository("other"))  # of another model, which nobody holds back
    assert other["outcome"] == "completed", other
    fresh.stop()
