"""The operator's commands on a real installation."""

import json

import pytest

from tests.e2e.installation import eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


def said(installation, *arguments):
    return json.loads(installation.pidispatch(*arguments, "--json").stdout)


def test_a_pause_holds_a_run_back_and_resume_starts_it_at_once(installation):
    folder = installation.repository("paused")
    assert said(installation, "pause")["changed"]
    answer = installation.run(folder, wait=False)

    waits = said(installation, "explain", answer["public_id"])["waits_for"]

    assert waits["word"] == "everything-paused"
    assert installation.state(answer["public_id"]) == "queued"
    assert said(installation, "resume")["rung"]
    eventually(lambda: installation.state(answer["public_id"]) == "ended", "the run ends", seconds=60)
    gates = said(installation, "explain", answer["public_id"])["gates"]
    assert {line["verdict"] for line in gates} == {"passed"}


def test_doctor_finds_rows_and_containers_in_order_while_a_run_is_at_work(installation):
    folder = installation.repository("at-work")
    answer = installation.run(folder, model="gated", wait=False)
    eventually((folder / "waiting").exists, "the agent waits", seconds=60)

    found = said(installation, "doctor")
    held_by = said(installation, "budget")["windows"][0]["held_by"]
    (folder / "release").touch()
    eventually(lambda: installation.state(answer["public_id"]) == "ended", "the run ends", seconds=60)

    assert {line["check"]: line["detail"] for line in found["findings"] if line["grade"] == "FAILED"} == {}
    assert answer["public_id"] in held_by
    assert said(installation, "doctor")["failed"] == 0
