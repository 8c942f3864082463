"""A one-shot from its event to its mark in the file and back, through the flows of a worker."""

import json

import pytest

from pidispatch.domain.triggers.grammar.marking import without_disarmed
from pidispatch.domain.triggers.subject import RunSubject
from pidispatch.store.triggers.arrivals import Arrivals
from tests.flows.site import Site
from tests.store.arriving import an_arrival
from tests.store.builders import assert_ledger_is_exact, row, value

ENTRY = {
    "on": {"type": "issue", "action": ["closed"], "number": 7, "once": True},
    "run": {"kind": "github", "flow": "fix"},
}


class Office:
    """A worker's flows and its file of triggers, with one one-shot in it."""

    def __init__(self, database, path):
        self.path, self.closed = path, 0
        self.write(ENTRY)
        self.site = Site(database, triggers_file=path)
        self.key = self.site.triggers.current().entries[0].identity

    def write(self, *entries):
        self.path.write_text(json.dumps({"triggers": entries}))

    def mark(self):
        return json.loads(self.path.read_text())["triggers"][0]["on"].get("disarmed")

    def closes(self):
        """The issue is closed (again): its run is asked for."""
        self.closed += 1
        subject = RunSubject("github:acme/web", "#7", "fix")
        arrival = an_arrival(subject=subject, one_shot=self.key, body=f"{self.closed}".encode(), window=0)
        return Arrivals(self.site.database).arrive(arrival)

    def runs(self):
        """The run starts, gets its go, and its box ends well; the end is not written yet."""
        claim, container = self.site.started()
        self.site.go(claim)
        self.site.boxes.finish(container, 0)
        return claim

    def ends(self):
        self.site.look()
        self.site.hear_finishes()


@pytest.fixture
def office(database, tmp_path):
    return Office(database, tmp_path / "triggers.json")


def spent(office):
    return row(office.site.database, "SELECT key, marked_at IS NOT NULL AS marked FROM one_shots")


def test_a_run_that_got_its_go_and_ended_is_marked_by_the_reconcilers_next_look(office):
    office.closes()
    claim = office.runs()
    office.site.look()
    assert (office.mark(), spent(office)["marked"]) == (None, False), "its record is not final yet"

    office.site.hear_finishes()
    office.site.look()

    assert office.mark()["jobId"] == claim.public_id
    assert spent(office) == {"key": office.key, "marked": True}
    office.site.look()
    assert value(office.site.database, "SELECT count(*) FROM one_shots") == 1


def test_a_mark_that_a_person_deletes_arms_again_and_the_next_event_runs(office):
    office.closes()
    first = office.runs()
    office.ends()
    office.site.look()
    office.path.write_bytes(without_disarmed(office.path.read_bytes(), "triggers.json", 0))

    office.site.look()

    database = office.site.database
    assert value(database, "SELECT count(*) FROM one_shots") == 0
    assert row(database, "SELECT key, run_id FROM rearmed_one_shots") == {
        "key": office.key,
        "run_id": first.run_id,
    }
    audited = row(database, "SELECT subject, detail FROM audit_log WHERE action = 'rearm'")
    assert audited == {"subject": office.key, "detail": {"run": first.public_id, "how": "mark-deleted"}}
    office.closes()
    second = office.runs()
    office.ends()
    office.site.look()
    assert office.mark()["jobId"] == second.public_id != first.public_id
    assert_ledger_is_exact(database)


def test_a_mark_written_by_hand_refuses_the_event_until_it_is_deleted(office):
    by_hand = {**ENTRY["on"], "disarmed": {"at": "2026-11-29T12:00:00Z"}}
    office.write({**ENTRY, "on": by_hand})
    refused = office.closes()

    assert office.site.gate.admit() is None

    ended = "SELECT outcome, reason, why FROM runs WHERE id = :id"
    assert row(office.site.database, ended, id=refused.run_id) == {
        "outcome": "policy",
        "reason": "once-already-spent",
        "why": "by-a-mark-in-the-file",
    }
    assert value(office.site.database, "SELECT count(*) FROM one_shots") == 0
    office.write(ENTRY)
    office.closes()
    assert office.site.gate.admit() is not None


def test_a_file_that_cannot_be_read_marks_nothing_and_stops_no_look(office):
    office.closes()
    claim = office.runs()
    office.ends()
    office.path.write_text("{")
    office.site.look()
    assert not spent(office)["marked"]

    office.write(ENTRY)
    office.site.look()

    assert office.mark()["jobId"] == claim.public_id
