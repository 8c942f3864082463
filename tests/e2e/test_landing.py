"""Soft landing: a run is told in time, stops at its cap, and goes on from there when it is granted more."""

import json

import pytest

from tests.e2e.installation import eventually
from tests.support.pace import Pace

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]

NOTE = "A note from pidispatch"


def asked_in(installation, folder):
    """The conversations of the run's calls, as the provider got them, in order."""
    return [
        asked.body["messages"]
        for asked in installation.provider.asked
        if f"work in {folder.name}" in str(asked.body)
    ]


def granted_and_cancelled(installation, folder, old, first):
    """The run that goes on, ended within its first answer."""
    new = json.loads(installation.pidispatch("grant", old, "+2.00", "--json").stdout)["public_id"]
    eventually(lambda: len(asked_in(installation, folder)) > 10, "the granted run works", seconds=60)

    messages = asked_in(installation, folder)[10]
    assert messages[1 : len(first[-1])] == first[-1][1:]
    assert "You were stopped at a limit" in str(messages[-1])
    assert f"work in {folder.name}" in str(messages[-1])
    again = installation.pidispatch("grant", old, "+1", check=False)
    assert again.returncode == 1
    assert f"goes on already, as {new}" in again.stderr
    installation.pidispatch("cancel", new)
    eventually(lambda: installation.state(new) == "ended", "it is cancelled", seconds=60)
    return new


def test_a_run_is_steered_once_stops_at_its_cap_and_goes_on_with_its_conversation(installation):
    folder = installation.repository("landing")
    installation.prices(models={"scripted/steady": {"input": 1, "output": 1}})  # dollars will be granted

    old = installation.run(folder, "--max-turns", "10", model="steady")["public_id"]

    first = asked_in(installation, folder)
    assert len(first) == 10
    assert str(first[-1]).count(NOTE) == 1
    assert NOTE not in str(first[7])
    told = next(message for message in first[-1] if NOTE in str(message))
    assert (told["role"], "of 10, the turns that this run may use" in str(told)) == ("user", True)
    shown = installation.pidispatch("show", old, "--json")
    stopped = json.loads(shown.stdout)
    assert (stopped["run"]["outcome"], stopped["session"]["stopped_at"]) == ("policy", "turns")
    assert stopped["session"]["kept_bytes"] > 1000
    assert f"pidispatch grant {old} +2.00" in " ".join(installation.pidispatch("explain", old).stdout.split())

    holds = Pace()
    holds.hold()
    installation.provider.pace = holds
    try:
        new = granted_and_cancelled(installation, folder, old, first)
    finally:
        installation.provider.pace = None
        holds.let_go()
    record = installation.one(
        "SELECT r.session_resumed, r.session_reason, r.cost_cap_micros, o.public_id AS continues FROM runs r"
        " JOIN runs o ON o.id = r.continues WHERE r.public_id = :id",
        id=new,
    )
    assert record == {
        "session_resumed": True, "session_reason": "resumed", "cost_cap_micros": 2_000_000, "continues": old,
    }  # fmt: skip
    kept = installation.one(
        "SELECT count(*) AS kept FROM run_sessions s JOIN runs r ON r.id = s.run_id WHERE r.public_id = :id",
        id=new,
    )
    assert kept["kept"] == 0  # a cancelled run keeps none
