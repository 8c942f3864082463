"""`triggers zone`: what is settled, and an operator's word for another."""

import pytest

pytestmark = pytest.mark.usefixtures("database")


def test_the_zone_is_shown_changed_and_audited(pidispatch):
    assert "not settled" in pidispatch("triggers", "zone").out

    changed = pidispatch("triggers", "zone", "europe/berlin", "--json").document
    again = pidispatch("triggers", "zone", "UTC", "--json").document

    assert (changed["zone"], changed["before"]) == ("Europe/Berlin", None)
    assert (again["zone"], again["before"]) == ("UTC", "Europe/Berlin")
    assert "UTC, settled " in pidispatch("triggers", "zone").out


def test_what_is_no_zone_is_refused(pidispatch):
    said = pidispatch("triggers", "zone", "Mars/Olympus")

    assert said.code == 2
    assert "'Mars/Olympus' is no zone" in said.err
