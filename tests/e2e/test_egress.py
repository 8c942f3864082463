"""What an agent of a whole installation may reach is what the operator listed, and what it tried is kept."""

import json

import pytest

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


def test_an_agent_reaches_nothing_that_is_not_listed_and_its_tries_are_kept(installation):
    run = installation.run(installation.repository("goes-out"), "--egress", "only.example", model="outside")

    shown = json.loads(installation.pidispatch("show", run["public_id"], "--json").stdout)

    assert run["outcome"] == "completed"
    assert {(use["host"], use["port"], use["allowed"], use["reason"]) for use in shown["egress"]} == {
        ("elsewhere.example", 443, False, "not-listed"),
        ("169.254.169.254", 80, False, "private-address"),
    }
