"""`triggers`: the entries of the file, what they planned, and what is said when file or rows cannot be read."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.inforce import standing_of
from pidispatch.upkeep.scheduledruns import ScheduledRuns
from tests.cli.lives import begin, end
from tests.store.builders import a_host
from tests.support.breaking import fail, open_one, some_breakers
from tests.support.timed import UTC_EVERYWHERE, Folders, the_schedules

KEYS = [
    "id", "index", "line", "type", "on", "run", "while_running", "priority", "not_enforced", "zone", "next_at", "in_force", "schedule",
    "last_slot", "breaker",
]  # fmt: skip
NIGHTLY = {
    "on": {"type": "cron", "id": "nightly", "pattern": "30 2 * * *", "tz": "Europe/Berlin"},
    "run": {"kind": "local", "folder": "/repos/nightly", "flow": "tidy", "task": "Tidy up", "priority": 5},
}
FIX = {
    "id": "fix",
    "on": {"type": "label", "any": ["pi"], "repo": "acme/web"},
    "run": {"kind": "github", "flow": "fix"},
}
CLOSED = {
    "on": {"type": "issue", "action": ["closed"], "number": 12, "once": True, "repo": "acme/web"},
    "run": {"kind": "github", "flow": "follow-up"},
}


class File:
    """The triggers file of a test, and a worker that reads it when told to."""

    def __init__(self, path, database):
        self.path = path
        self.folders = Folders()
        self._schedules = the_schedules(database, folders=self.folders)
        self._standing = None

    def write(self, *entries):
        self.path.write_text(json.dumps({"triggers": list(entries)}))

    def sync(self, now=None):
        triggers = parse_triggers(self.path.read_bytes(), str(self.path))
        serves = ScheduledRuns(host="h1", open_folder=self.folders).serves
        known = standing_of(triggers, UTC_EVERYWHERE, serves=serves)
        self._standing = self._schedules.sync(lambda: known, now)

    def plan(self, now=None):
        return self._schedules.plan(self._standing, now)


@pytest.fixture
def file(bare, tmp_path, database):
    path = tmp_path / "triggers.json"
    bare.setenv("PI_TRIGGERS_FILE", str(path))
    a_host(database)
    return File(path, database)


def lines_of(said):
    return [" ".join(line.split()) for line in said.out.splitlines()]


def test_every_entry_has_a_line(pidispatch, file):
    file.write(NIGHTLY, FIX, CLOSED)
    file.sync()

    said = pidispatch("triggers")

    assert (said.code, said.err) == (0, "")
    _, nightly, fix, closed = lines_of(said)
    assert nightly.startswith("nightly cron flow tidy in /repos/nightly 2")
    assert nightly.endswith("02:30:00 Europe/Berlin queue 5 h1")
    assert fix == "fix label flow fix for github the label pi in acme/web queue 0"
    short, rest = closed.split(" ", 1)
    assert len(short) == 12
    assert rest == "issue flow follow-up for github issue #12 closed, once in acme/web queue 0"


def test_a_program_gets_keys_that_stay(pidispatch, file):
    file.write(NIGHTLY, CLOSED)
    file.sync()

    found = pidispatch("triggers", "--json").document

    assert list(found) == ["file", "file_problems", "notes", "without_rows", "triggers"]
    nightly, closed = found["triggers"]
    assert list(nightly) == KEYS
    assert (nightly["on"], nightly["run"]) == (NIGHTLY["on"], NIGHTLY["run"])
    assert (nightly["schedule"]["host"], nightly["schedule"]["alive"], nightly["in_force"]) == (
        "h1",
        True,
        True,
    )
    assert nightly["next_at"] == nightly["schedule"]["next_at"]
    assert (closed["schedule"], closed["zone"], closed["in_force"]) == (None, None, None)
    assert len(closed["id"]) == 64


def test_without_a_file_nothing_starts_by_itself(pidispatch):
    said = pidispatch("triggers")

    assert (said.code, said.out) == (0, "no triggers file: PI_TRIGGERS_FILE is not set\n")


def test_a_file_without_entries_is_said(pidispatch, file):
    file.write()

    assert pidispatch("triggers").out == "nothing starts by itself\n"


def test_a_schedule_that_no_worker_has_read_is_said_to_be_planned_by_nobody(pidispatch, file):
    file.write(NIGHTLY)

    assert lines_of(pidispatch("triggers"))[1].endswith("queue 5 none yet")
    assert pidispatch("triggers", "--json").document["triggers"][0]["in_force"] is False


def test_an_edit_that_holds_nowhere_yet_is_told(pidispatch, file):
    file.write(NIGHTLY)
    file.sync()
    file.write(NIGHTLY | {"on": NIGHTLY["on"] | {"pattern": "45 3 * * *"}})

    line = lines_of(pidispatch("triggers"))[1]

    assert "03:45:00 Europe/Berlin" in line
    assert line.endswith("h1 (by an earlier edit)")


def test_a_bad_edit_is_told_and_what_is_planned_stays_visible(pidispatch, file):
    file.write(NIGHTLY, FIX)
    file.sync()
    file.write(NIGHTLY | {"on": NIGHTLY["on"] | {"pattern": "99 3 * * *"}}, FIX)

    said = pidispatch("triggers")

    assert said.code == 2
    assert 'triggers.json:1: triggers[0] (id "nightly"): on.pattern has a wrong minute' in said.err
    assert "keeps the last good edit" in said.err
    assert len(lines_of(said)) == 2
    assert "02:30:00 Europe/Berlin" in said.out
    assert "not in this file" not in said.out
    found = pidispatch("triggers", "--json")
    assert found.code == 2
    assert len(found.document["file_problems"]) == 1
    assert found.document["triggers"][0]["on"] is None
    assert found.document["triggers"][0]["schedule"]["pattern"] == "30 2 * * *"
    assert pidispatch("triggers", "show", "nightly").code == 2
    assert "02:30:00" in pidispatch("triggers", "next", "nightly").out


def test_without_a_database_the_file_is_told_and_the_rest_is_missing(command, bare, tmp_path):
    path = tmp_path / "triggers.json"
    path.write_text(json.dumps({"triggers": [NIGHTLY]}))
    bare.setenv("PI_TRIGGERS_FILE", str(path))
    bare.setenv("DATABASE_URL", "postgresql://u:hunter2-s3cret@/d?host=/nonexistent")

    listed, shown, due = (
        command("triggers", *rest) for rest in ((), ("show", "nightly"), ("next", "nightly"))
    )

    assert [listed.code, shown.code, due.code] == [1, 1, 0]
    assert "02:30:00 Europe/Berlin" in listed.out
    assert "did run is missing: Postgres does not answer" in listed.err
    assert "run.task" in shown.out
    assert "missing: Postgres does not answer" in shown.err
    assert len(due.out.splitlines()) == 6
    assert "hunter2" not in listed.err + shown.err


def test_a_schedule_of_another_file_is_listed_as_such(pidispatch, file):
    file.write(NIGHTLY)
    file.sync()
    file.write(FIX)

    assert lines_of(pidispatch("triggers"))[2].endswith("h1 (not in this file)")
    assert "another host's file has it" in pidispatch("triggers", "show", "nightly").out


def test_a_silent_host_and_a_missing_folder_are_said(pidispatch, file, database):
    file.folders.missing.add("/repos/nightly")
    file.write(NIGHTLY)
    file.sync()
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE hosts SET heartbeat_at = now() - interval '5 minutes'")

    assert lines_of(pidispatch("triggers"))[1].endswith("h1 (silent, without its folder)")


def test_an_entry_that_starts_nothing_says_why(pidispatch, file):
    file.write(NIGHTLY | {"run": NIGHTLY["run"] | {"github": True}})
    file.sync()

    words = "nothing, since run.github is not enforced yet; else flow tidy in /repos/nightly"
    assert words in pidispatch("triggers").out
    assert words in pidispatch("triggers", "show", "nightly").out


@pytest.mark.parametrize("packages", [True, False])
def test_packages_promise_nothing(pidispatch, file, packages):
    file.write(NIGHTLY | {"run": NIGHTLY["run"] | {"packages": packages}})

    said = " ".join(pidispatch("triggers", "show", "nightly").out.split())

    assert f"run.packages {str(packages).lower()} (this version stages no packages" in said


def test_the_last_slot_and_its_run_are_in_the_list(pidispatch, file):
    file.write(NIGHTLY)
    now = datetime(2026, 5, 4, tzinfo=UTC)
    file.sync(now)
    file.plan(now + timedelta(minutes=31))

    assert (
        "2026-05-04 02:30:00 ran repeat:nightly:1777854600000 queued" in lines_of(pidispatch("triggers"))[1]
    )


def test_a_column_tells_of_failures_where_there_are_some(pidispatch, file, database):
    file.write(NIGHTLY, FIX)
    file.sync()
    assert "failures" not in pidispatch("triggers").out
    open_one(database)
    fail(database, "fix")
    some_breakers(database).count()

    heading, nightly, fix = lines_of(pidispatch("triggers"))

    assert heading.endswith("host failures")
    assert "h1 3 in a row: infra, held back until 2" in nightly
    assert fix.endswith("queue 0 1 in a row: infra")
    found = pidispatch("triggers", "--json").document["triggers"]
    assert [(each["breaker"]["failures"], each["breaker"]["opened_at"] is None) for each in found] == [
        (3, False),
        (1, True),
    ]
    (line,) = [line for line in lines_of(pidispatch("triggers", "show", "nightly")) if "failures" in line]
    assert line.startswith("failures held back: trigger nightly since 2")


def test_an_entry_is_shown_in_full_with_what_became_of_its_instants(pidispatch, file, database):
    file.write(NIGHTLY)
    start = datetime(2026, 5, 4, tzinfo=UTC)
    file.sync(start)
    file.plan(start + timedelta(minutes=30))
    end(database, begin(database))
    file.folders.missing.add("/repos/nightly")
    file.plan(start + timedelta(days=1, minutes=30))
    file.folders.missing.clear()
    file.plan(start + timedelta(days=4))

    said = pidispatch("triggers", "show", "nightly")

    assert said.code == 0
    lines = lines_of(said)
    for line in (
        "trigger nightly",
        "place in the file triggers[0], line 1",
        "does flow tidy in /repos/nightly",
        "pattern 30 2 * * *",
        "zone Europe/Berlin",
        "missed instants once",
        "planned by h1",
        "run.task Tidy up",
        "run.priority 5",
    ):
        assert line in lines
    four = lines[lines.index("planned, in Europe/Berlin in UTC became run started late by") + 1 :]
    assert [line.split("Z ", 1)[1].split(" repeat")[0] for line in four] == [
        "deferred: catch-up",
        "missed: made-up-by-a-newer",
        "skipped: local-folder-missing",
        "ran",
    ]
    assert "completed" in four[-1]
    assert four[-1].endswith((" d", " h"))  # the run starts today, its instant was planned long ago
    found = pidispatch("triggers", "show", "nightly", "--json").document
    assert list(found) == ["file", "file_problems", "notes", "without_rows", "trigger", "slots"]
    assert [slot["state"] for slot in found["slots"]] == ["deferred", "missed", "skipped", "ran"]


def test_at_most_ten_instants_are_shown(pidispatch, file):
    file.write(NIGHTLY | {"on": NIGHTLY["on"] | {"missed": "skip"}})
    start = datetime(2026, 5, 4, tzinfo=UTC)
    file.sync(start)
    file.plan(start + timedelta(days=30))

    assert len(pidispatch("triggers", "show", "nightly", "--json").document["slots"]) == 10


def test_an_entry_without_an_id_answers_to_the_beginning_of_its_identity(pidispatch, file):
    file.write(CLOSED)
    short = lines_of(pidispatch("triggers"))[1].split()[0]

    for name in (short, short[:4]):
        assert "issue #12 closed, once in acme/web" in pidispatch("triggers", "show", name).out
    assert pidispatch("triggers", "show", short[:3]).code == 1


@pytest.mark.parametrize("name", ["nope", "", "night", "a\x1b[31m", "\udcff"])
def test_an_entry_that_is_not_there_is_said(pidispatch, file, name):
    file.write(NIGHTLY)

    for what in ("show", "next"):
        said = pidispatch("triggers", what, name)

        assert (said.code, said.out) == (1, "")
        assert "there is no trigger " in said.err
        assert "triggers.json; `pidispatch triggers` lists them" in said.err
        assert "\x1b" not in said.err


def test_what_comes_next_is_told_in_the_zone_and_in_utc(pidispatch, file):
    file.write(NIGHTLY)

    said = pidispatch("triggers", "next", "nightly", "-n", "400")
    found = pidispatch("triggers", "next", "nightly", "-n", "2", "--json").document

    lines = lines_of(said)
    assert lines[0] == "in Europe/Berlin offset in UTC clock"
    assert len(lines) == 401
    assert sum("the clock goes back 1 h before, at " in line for line in lines) == 1
    forward = [line for line in lines if "the clock goes forward 1 h" in line]
    assert len(forward) == 1
    assert "03:00:00 +0200" in forward[0]
    assert forward[0].endswith("over the time it names: due at the end of the gap")
    assert list(found) == ["id", "zone", "instants"]
    assert list(found["instants"][0]) == ["at", "local", "clock_change", "skipped"]
    assert "T02:30:00+0" in found["instants"][0]["local"]


def test_what_waits_for_a_forge_has_no_instants(pidispatch, file):
    file.write(FIX)

    said = pidispatch("triggers", "next", "fix")

    assert (said.code, said.out) == (1, "")
    assert "fix is no schedule: an event of a forge starts it" in said.err


def test_nothing_of_the_file_moves_a_cursor(pidispatch, file, database):
    work = {
        "kind": "local",
        "folder": "/repos/\x1b[31mred",
        "flow": "t\x1b]0;x\x07",
        "task": "a\x1b[2Jb\u202ec",
    }
    phrase = {"type": "comment", "phrase": "\x1b[31m"}
    file.write({"on": NIGHTLY["on"], "run": work}, {"on": phrase, "run": {"kind": "github", "flow": "fix"}})
    file.sync()
    with database.transaction() as connection:
        connection.execute(text("UPDATE schedules SET pattern = :odd"), {"odd": "\x1b[31m"})

    for arguments in ((), ("show", "nightly"), ("next", "nightly")):
        said = pidispatch("triggers", *arguments)
        assert not {"\x1b", "\x07", "\u202e"} & set(said.out + said.err)
