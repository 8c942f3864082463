"""`triggers rearm`: a one-shot that was used up fires again, and whatever holds it back still is said."""

import json

import pytest

from pidispatch.files import MarkedFile
from tests.store.builders import a_host, row, value
from tests.upkeep.test_marking import ENTRY, House

NAMED = {"id": "follow-up", **ENTRY}
MARK = {"at": "2026-11-29T12:00:00Z"}


@pytest.fixture
def house(bare, database, tmp_path):
    a_host(database, capacity=10)
    bare.setenv("PI_TRIGGERS_FILE", str(tmp_path / "triggers.json"))
    house = House(database, tmp_path / "triggers.json")
    house.write(NAMED)
    return house


def by_hand(entry):
    return entry | {"on": entry["on"] | {"disarmed": MARK}}


def test_the_row_and_the_mark_are_taken_away_and_audited(pidispatch, house):
    claim = house.runs()
    house.marking.look()

    said = pidispatch("triggers", "rearm", "follow-up")

    assert (said.code, said.err) == (0, "")
    assert said.out == (
        f"follow-up is armed again: {claim.public_id} had used it up; its mark was taken out of {house.path}\n"
    )
    assert house.fires()
    audited = row(house.database, "SELECT actor, subject, detail FROM audit_log WHERE action = 'rearm'")
    assert audited["actor"].endswith("@h1")
    assert (audited["subject"], audited["detail"]["how"]) == ("follow-up", "command")


def test_a_program_is_told_the_same(pidispatch, house):
    claim = house.runs()

    assert pidispatch("triggers", "rearm", "follow-up", "--json").document == {
        "trigger": "follow-up",
        "run": claim.public_id,
        "unmarked": False,
        "still_marked_in": None,
    }


def test_an_entry_without_an_id_answers_to_the_beginning_of_its_identity(pidispatch, house):
    house.write(ENTRY)
    key = house.key()
    house.runs()

    assert pidispatch("triggers", "rearm", key[:3]).code == 1
    assert pidispatch("triggers", "rearm", key[:12]).code == 0
    assert house.fires()


def test_a_mark_that_was_written_by_hand_is_taken_out(pidispatch, house):
    house.write(by_hand(NAMED))

    said = pidispatch("triggers", "rearm", "follow-up")

    assert said.code == 0
    assert "a mark alone said that it was used up; its mark was taken out of" in said.out
    assert house.fires()
    audited = value(house.database, "SELECT detail FROM audit_log WHERE action = 'rearm'")
    assert audited == {"run": None, "how": "command"}


def test_one_that_was_never_used_up_is_refused(pidispatch, house):
    said = pidispatch("triggers", "rearm", "follow-up")

    assert (said.code, said.out) == (1, "")
    assert f"follow-up is armed: no run used it up, and no mark in {house.path} says so" in said.err


def test_one_whose_run_goes_on_is_refused_with_the_way_out(pidispatch, house):
    claim = house.goes()

    said = pidispatch("triggers", "rearm", "follow-up")

    assert (said.code, said.out) == (1, "")
    assert (
        f"being used up by {claim.public_id}, which has not ended; wait, or `pidispatch cancel {claim.public_id}`"
        in (said.err)
    )
    assert value(house.database, "SELECT count(*) FROM one_shots") == 1


def test_an_entry_that_is_never_used_up_is_refused(pidispatch, house):
    house.write(
        {"id": "fix", "on": {"type": "label", "any": ["pi"]}, "run": {"kind": "github", "flow": "fix"}}
    )

    said = pidispatch("triggers", "rearm", "fix")

    assert said.code == 1
    assert "triggers.json:1: triggers[0]: fix is never used up: it has no on.once" in said.err


@pytest.mark.parametrize("name", ["nope", "", "a\x1b[31m", "\udcff"])
def test_one_that_is_not_there_is_said(pidispatch, house, name):
    said = pidispatch("triggers", "rearm", name)

    assert (said.code, said.out) == (1, "")
    assert "there is no trigger " in said.err
    assert "\x1b" not in said.err


def test_one_whose_entry_is_gone_answers_to_its_key(pidispatch, house):
    house.runs()
    house.write()

    said = pidispatch("triggers", "rearm", "follow-up")

    assert said.code == 0
    assert "had used it up; no mark was taken out of" in said.out
    assert value(house.database, "SELECT count(*) FROM one_shots") == 0


def test_a_mark_in_the_file_of_another_host_is_named(pidispatch, house, tmp_path):
    claim = house.runs()
    there = MarkedFile(tmp_path / "theirs.json", host="h2")
    (spent,) = house.one_shots.to_mark()
    house.one_shots.marked(spent, there.place)

    said = pidispatch("triggers", "rearm", "follow-up")

    assert said.code == 1
    assert f"follow-up is armed in the database: {claim.public_id} had used it up" in said.out
    assert (
        "written into the triggers file of h2 and holds it back there: delete on.disarmed in it" in said.err
    )


def test_a_mark_that_cannot_be_taken_out_is_said(pidispatch, house, monkeypatch):
    house.runs()
    house.write(by_hand(NAMED))
    monkeypatch.setattr(MarkedFile, "mark", lambda *_: False)

    said = pidispatch("triggers", "rearm", "follow-up", "--json")

    assert said.code == 1
    assert (said.document["unmarked"], said.document["still_marked_in"]) == (False, str(house.path))
    assert f"its mark is still in {house.path} and holds it back" in said.err


def test_without_a_good_file_nothing_is_touched(pidispatch, house, bare):
    house.runs()
    house.path.write_text(json.dumps({"triggers": [{}]}))
    refused = pidispatch("triggers", "rearm", "follow-up")
    bare.delenv("PI_TRIGGERS_FILE")
    nameless = pidispatch("triggers", "rearm", "follow-up")

    assert (refused.code, nameless.code) == (2, 2)
    assert "triggers.json:1: triggers[0]" in refused.err
    assert "PI_TRIGGERS_FILE is not set" in nameless.err
    assert value(house.database, "SELECT count(*) FROM one_shots") == 1
