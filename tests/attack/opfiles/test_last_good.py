"""A bad edit never loosens a limit, in whichever process, at whichever moment, and after a restart."""

import json
import threading

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from pidispatch.app.keeping import OF_WORKERS, kept_files
from pidispatch.app.policy import FilePolicies
from pidispatch.app.standing import standing_triggers
from pidispatch.app.verbs.queue import standing_of
from pidispatch.config import load
from pidispatch.domain.limits.admission import Admitted, Passed
from pidispatch.domain.limits.policy import Basis, Policy, Subject
from pidispatch.domain.limits.windows import Cap, Period, Unit
from pidispatch.domain.runs.names import folder_scope
from pidispatch.domain.text.redaction import Redactor
from pidispatch.errors import ConfigurationRefused
from pidispatch.files.watching import FileWatch
from pidispatch.store.database import Database
from pidispatch.store.keptfiles import PostgresKeptFiles
from tests.store.builders import HOST, a_host, a_run, after_a_look, try_next, value

FOLDER = "/srv/site"
SECRET = "sk-live-5f0c2d9e7a1b4c83"
FILES = {
    "scoped-limits.json": "PI_SCOPED_LIMITS_FILE",
    "pause-windows.json": "PI_PAUSE_WINDOWS_FILE",
    "triggers.json": "PI_TRIGGERS_FILE",
}
ALWAYS = [{"scope": "*", "from": "00:00", "to": "12:00"}, {"scope": "*", "from": "12:00", "to": "00:00"}]
SCHEDULE = {
    "on": {"type": "cron", "id": "nightly", "pattern": "0 3 * * *"},
    "run": {"kind": "local", "folder": FOLDER, "flow": "tidy", "task": "Tidy up"},
}


def limits(day):
    return {"version": 1, "limits": [{"scope": FOLDER, "day": day}] if day else []}


class Place:
    """The operator's files, and the processes of one host that read them."""

    def __init__(self, root, database):
        self.root, self.database = root, database
        self.write("scoped-limits.json", limits(None))
        self.write("pause-windows.json", {"windows": []})
        self.write("triggers.json", {"triggers": []})

    def write(self, name, content):
        draft = self.root / f"{name}.draft"
        draft.write_text(content if isinstance(content, str) else json.dumps(content))
        draft.rename(self.root / name)

    @property
    def settings(self):
        environ = {name: str(self.root / file) for file, name in FILES.items()}
        return load({"PIDISPATCH_HOME": str(self.root), "PI_WORKER_NAME": HOST, **environ}, None)

    def process(self, *secrets):
        kept = kept_files(self.settings, self.database, Redactor(secrets), OF_WORKERS)
        return Process(FilePolicies(self.settings, kept), standing_triggers(self.settings, kept))


class Process:
    def __init__(self, policies, triggers):
        self.policies, self.triggers = policies, triggers
        self.watch = FileWatch([policies.look, triggers.look])

    def day_cap(self):
        row = self.policies.current().by_scope.get(folder_scope(FOLDER))
        return None if row is None else row.day

    def paused(self, now):
        subject = Subject(folder_scope(FOLDER), FOLDER, FOLDER)
        return self.policies.current().paused_until(subject, now) is not None


@pytest.fixture
def place(tmp_path, database):
    a_host(database)
    return Place(tmp_path, database)


def test_what_was_good_for_a_moment_while_a_process_was_idle_is_what_holds(place):
    """The edit that set the cap came and went while nothing asked for limits; only the watch saw it."""
    idle = place.process()
    assert idle.day_cap() is None
    place.write("scoped-limits.json", limits(1))
    idle.watch.look()

    place.write("scoped-limits.json", json.dumps(limits(1)).replace("]", ",]"))

    assert idle.day_cap() == 1


def test_two_processes_of_one_pool_agree_whoever_saw_the_edit(place):
    awake, asleep = place.process(), place.process()
    assert (awake.day_cap(), asleep.day_cap()) == (None, None)
    place.write("scoped-limits.json", limits(1))
    assert awake.day_cap() == 1

    place.write("scoped-limits.json", "{")

    assert (awake.day_cap(), asleep.day_cap()) == (1, 1)
    place.write("scoped-limits.json", limits(7))
    assert (asleep.day_cap(), awake.day_cap()) == (7, 7)


def test_a_pause_on_everything_survives_a_stray_comma_and_a_restart(place, database):
    now = database.now()
    place.process().watch.look()
    place.write("pause-windows.json", {"windows": ALWAYS})
    place.process().watch.look()
    place.write("pause-windows.json", json.dumps({"windows": ALWAYS}).replace("}]", "},]"))

    with capture_logs() as logs:
        restarted = place.process()
        restarted.policies.load()

    assert restarted.paused(now)
    told = [each for each in logs if each["event"] == "pause_windows_reload_invalid"]
    assert told[0]["kept"] == "the last good edit"
    loaded = [each for each in logs if each["event"] == "pause_windows_loaded"]
    assert loaded[0]["windows"] == 2


def test_a_process_that_starts_while_a_file_is_bad_and_nothing_was_good_is_refused(place):
    for file, problem in (("scoped-limits.json", "limits"), ("triggers.json", "triggers")):
        place.write(file, "{")
        process = place.process()
        with pytest.raises(ConfigurationRefused, match=problem):
            process.policies.load()
            process.triggers.load()
        place.write(file, limits(1) if file == "scoped-limits.json" else {"triggers": []})


def test_a_file_that_is_gone_lifts_nothing(place):
    place.write("scoped-limits.json", limits(1))
    place.write("settings.json", {"dailyCap": 3})
    place.write("triggers.json", {"triggers": [SCHEDULE]})
    running = place.process()
    running.watch.look()
    for name in ("scoped-limits.json", "settings.json", "triggers.json"):
        (place.root / name).unlink()

    for process in (running, place.process()):
        assert process.day_cap() == 1
        assert process.policies.current().daily_cap == 3
        assert len(process.triggers.current().entries) == 1
    place.write("settings.json", {})
    assert running.policies.current().daily_cap == place.process().policies.current().daily_cap == 25


def test_a_bad_overlay_refuses_every_run_also_after_a_restart(place):
    place.write("settings.json", {"dailyCap": 3})
    place.process().watch.look()
    place.write("settings.json", '{"dailyCap": 3,}')

    assert not isinstance(place.process().policies.current(), Policy)


def test_an_idle_process_says_so_once_and_when_it_is_over(place):
    idle = place.process()
    idle.watch.look()

    with capture_logs() as logs:
        place.write("triggers.json", {"triggers": [SCHEDULE, 5]})
        for _ in range(3):
            idle.watch.look()
        place.write("triggers.json", {"triggers": [SCHEDULE]})
        idle.watch.look()

    assert [each["event"] for each in logs] == ["triggers_reload_invalid", "triggers_reloaded"]
    assert "triggers.json:1" in logs[0]["problems"][0]
    assert (logs[1]["triggers"], logs[1]["schedules"]) == (1, 1)


def test_status_tells_the_file_and_line_since_when_and_what_holds(place, database):
    place.write("scoped-limits.json", limits(1))
    place.process().watch.look()
    place.write("scoped-limits.json", "{\n,")
    place.process().watch.look()

    (told,) = standing_of(database, place.settings).file_problems

    assert told.startswith(f"{place.root}/scoped-limits.json:2: ")
    assert "; since 2" in told
    assert told.endswith(" holds")
    assert "the content of 2" in told
    place.write("scoped-limits.json", limits(1))
    place.process().watch.look()
    assert standing_of(database, place.settings).file_problems == ()


def test_who_only_asks_keeps_nothing_and_logs_nothing(place, database):
    place.write("scoped-limits.json", limits(1))

    with capture_logs() as logs:
        standing_of(database, place.settings)
        place.write("scoped-limits.json", "{")
        standing_of(database, place.settings)

    assert logs == []
    assert value(database, "SELECT count(*) FROM operator_files") == 0


def test_what_another_host_cannot_use_is_told_by_its_name(place, database):
    other = of_host(place, "h2")
    kept = kept_files(other, database, Redactor(), OF_WORKERS)
    FilePolicies(other, kept).look()
    place.write("pause-windows.json", "{")
    FilePolicies(other, kept).look()
    place.write("pause-windows.json", {"windows": []})

    (told,) = standing_of(database, place.settings).file_problems

    assert told.startswith(f"h2: {place.root}/pause-windows.json:1: ")


def of_host(place, host):
    environ = {name: str(place.root / file) for file, name in FILES.items()}
    return load({"PIDISPATCH_HOME": str(place.root), "PI_WORKER_NAME": host, **environ}, None)


def test_a_content_with_a_known_secret_in_it_is_never_stored(place, database):
    hidden = {"triggers": [{**SCHEDULE, "run": {**SCHEDULE["run"], "task": f"use {SECRET}"}}]}
    place.write("triggers.json", hidden)
    process = place.process(SECRET)
    with capture_logs() as logs:
        process.watch.look()

    with database.transaction() as connection:
        rows = connection.execute(text("SELECT name, contents::text AS contents FROM operator_files")).all()
    assert {row.name: row.contents for row in rows}["triggers"] is None
    assert all(SECRET.encode().hex() not in (row.contents or "") for row in rows)
    assert "triggers_not_kept" in [each["event"] for each in logs]
    place.write("triggers.json", "{")
    assert len(process.triggers.current().entries) == 1  # in this process it is known
    with pytest.raises(ConfigurationRefused, match="secret"):
        place.process(SECRET).triggers.load()


def test_without_the_database_what_holds_goes_on_and_is_kept_when_it_answers(place, database_url):
    away = Database(database_url.replace("/pd_", "/none_"), pool_size=1)
    working = place.process()
    assert working.day_cap() is None
    file = working.policies._boundaries
    there, file._kept = file._kept, PostgresKeptFiles(away, host=HOST)

    place.write("scoped-limits.json", limits(2))
    assert working.day_cap() == 2
    place.write("scoped-limits.json", "{")
    assert working.day_cap() == 2
    file._kept = there
    place.write("scoped-limits.json", limits(2))
    assert working.day_cap() == 2
    place.write("scoped-limits.json", "{")
    assert place.process().day_cap() == 2
    away.close()


def test_an_admission_by_a_content_that_is_not_the_newest_takes_nothing(place, database):
    """The cap was edited between the look at the files and the transaction, and another process admitted by it."""
    scoped = Cap("folder:/repos/x", Unit.RUNS, Period.DAY, 1)
    slow, quick = place.process(), place.process()
    old = slow.policies.current()
    place.write("scoped-limits.json", limits(1))
    new = quick.policies.current()
    first = a_run(database, folder="/repos/x")
    assert isinstance(try_next(database, (scoped,), basis=new.basis)[1], Admitted)
    second = a_run(database)

    answer = try_next(database, (), basis=old.basis)

    assert answer == (second, Passed())
    states = {
        run: value(database, "SELECT state FROM runs WHERE id = :id", id=run) for run in (first, second)
    }
    assert states == {first: "admitted", second: "queued"}
    assert value(database, "SELECT looked_at IS NULL FROM runs WHERE id = :id", id=second)
    after_a_look(database)
    assert isinstance(try_next(database, (), basis=slow.policies.current().basis)[1], Admitted)


def test_a_content_that_nobody_stored_holds_nobody_back(place, database):
    a_run(database)
    unknown = (Basis("scoped_limits", "/never/read", "0" * 64),)

    assert isinstance(try_next(database, basis=unknown)[1], Admitted)


def test_whatever_is_edited_while_processes_look_the_stored_content_follows_the_order_of_edits(
    place, database
):
    """Many threads look while the file changes; at no time is the stored cap one of before the last look."""
    processes = [place.process() for _ in range(3)]
    assert [each.day_cap() for each in processes] == [None] * 3
    over, behind = threading.Event(), []

    def look(process):
        last = 0
        while not over.is_set():
            cap = process.day_cap() or 0
            if cap < last:
                behind.append((last, cap))
            last = cap

    threads = [threading.Thread(target=look, args=(each,)) for each in processes]
    for thread in threads:
        thread.start()
    for number in range(1, 41):
        place.write("scoped-limits.json", limits(number) if number % 3 else "{")
    place.write("scoped-limits.json", limits(50))
    caps = [each.day_cap() for each in processes]
    over.set()
    for thread in threads:
        thread.join()

    assert behind == []
    assert caps == [50, 50, 50]
    assert place.process().day_cap() == 50


def test_a_changed_path_is_another_file(place, database):
    place.write("scoped-limits.json", limits(1))
    place.process().watch.look()
    place.write("scoped-limits.json", "{")
    place.process().watch.look()
    place.write("other.json", limits(5))
    moved = place.settings.model_copy(update={"scoped_limits_file": place.root / "other.json"})
    policies = FilePolicies(moved, kept_files(moved, database, Redactor(), OF_WORKERS))

    assert policies.current().by_scope[folder_scope(FOLDER)].day == 5
    assert standing_of(database, moved).file_problems == ()
