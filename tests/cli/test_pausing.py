"""`pause` and `resume`: the switch, what it says, and who turned it."""

import pytest

from pidispatch.domain.runs.names import folder_scope
from tests.cli.lives import begin
from tests.store.builders import a_host, a_run, try_next, value

PAUSE = [
    "scope", "changed", "paused_at", "paused_by", "running", "waiting", "everything_paused_at", "stopped_at", "unread",
]  # fmt: skip


def test_everything_is_paused_and_goes_on(pidispatch, database, services):
    a_host(database)
    for _ in range(2):
        a_run(database)
    begin(database)

    said = pidispatch("pause", "--reason", "the provider is down")

    assert (said.code, said.err) == (0, "")
    assert said.out == "everything is paused: nothing more starts\n1 run still going on, 1 waiting\n"
    assert try_next(database) is None
    assert "queue             paused since 2" in pidispatch("status").out

    said = pidispatch("resume")

    assert said.code == 0
    assert said.out.startswith("everything was paused since 2")
    assert said.out.endswith(" and goes on\n1 run still going on, 1 waiting\n")
    assert services.valkey.ask("LLEN pidispatch:runs.h1") == b":1\r\n"  # a bell, so that work starts at once
    assert try_next(database) is not None
    assert value(database, "SELECT actor FROM audit_log LIMIT 1").endswith("@h1")
    assert value(database, "SELECT detail ->> 'reason' FROM audit_log ORDER BY id LIMIT 1") == (
        "the provider is down"
    )


def test_saying_it_twice_is_no_fault(pidispatch):
    pidispatch("pause")

    said = pidispatch("pause")

    assert said.code == 0
    assert said.out.startswith("everything was paused already, since 2")
    assert pidispatch("resume").code == 0
    assert pidispatch("resume").out == "everything was not paused\nno run is going on, 0 waiting\n"


def test_a_folder_is_paused_by_its_path(pidispatch, folder, database):
    said = pidispatch("pause", "--scope", str(folder), "--json")

    assert said.code == 0
    assert list(said.document) == PAUSE
    assert said.document["scope"] == folder_scope(str(folder))
    assert value(database, "SELECT key FROM scopes WHERE paused_at IS NOT NULL") == folder_scope(str(folder))
    assert pidispatch("status", "--json").document["paused"][0]["scope"] == folder_scope(str(folder))

    pidispatch("pause")
    said = pidispatch("resume", "--scope", f"{folder}/../{folder.name}/")

    assert said.out.splitlines()[0].endswith(" and goes on")
    assert "everything is still paused since 2" in said.out
    assert pidispatch("resume", "--json").document["rung"] is True


def test_a_key_that_status_shows_is_a_scope_too(pidispatch, database):
    a_run(database, folder="/repos/x")

    assert pidispatch("pause", "--scope", "folder:/repos/x").code == 0
    assert value(database, "SELECT count(*) FROM scopes WHERE paused_at IS NOT NULL") == 1


@pytest.mark.parametrize(
    "scope", ["/no/such/folder", "project:nobody", "acme/web", "", "a\x1b[31m", "\udcff"]
)
def test_a_slip_of_the_pen_pauses_nothing_and_says_so(pidispatch, database, scope):
    for command in ("pause", "resume"):
        said = pidispatch(command, "--scope", scope)

        assert (said.code, said.out) == (1, "")
        assert " is no folder, and no run was ever asked for in it" in said.err
        assert "\x1b" not in said.err
    assert value(database, "SELECT count(*) FROM scopes WHERE paused_at IS NOT NULL") == 0
    assert value(database, "SELECT count(*) FROM audit_log") == 0


@pytest.mark.parametrize("reason", ["", "x" * 501, "a\x1b[31m", "two\nlines"])
def test_a_reason_is_one_printable_line(pidispatch, database, reason):
    assert pidispatch("pause", "--reason", reason).code == 2
    assert value(database, "SELECT count(*) FROM audit_log") == 0


def test_pausing_needs_no_redis_and_resuming_says_that_nobody_was_woken(
    command, bare, database_url, database
):
    a_host(database)
    a_run(database)
    bare.setenv("DATABASE_URL", database_url)
    assert command("pause").code == 0
    assert command("resume").err.startswith("Redis does not answer")

    bare.setenv("REDIS_URL", "redis://127.0.0.1:1")
    assert command("pause").code == 0
    said = command("resume")

    assert said.code == 0
    assert said.err == "Redis does not answer, so no worker was woken: workers look by themselves\n"
    assert try_next(database) is not None


def test_a_project_of_the_files_is_a_scope(pidispatch, bare, tmp_path, database):
    projects = '{"version": 1, "projects": [{"id": "web", "members": ["/repos/web"]}]}'
    (tmp_path / "projects.json").write_text(projects)
    bare.setenv("PI_PROJECTS_FILE", str(tmp_path / "projects.json"))

    said = pidispatch("pause", "--scope", "project:web")

    assert said.code == 0, said.err
    assert value(database, "SELECT key FROM scopes WHERE paused_at IS NOT NULL") == "project:web"


def test_the_switch_works_whatever_is_in_the_files(pidispatch, bare, tmp_path, folder):
    (tmp_path / "broken.json").write_text("{")
    for setting in ("PI_SCOPED_LIMITS_FILE", "PI_PROJECTS_FILE", "PI_SETTINGS_FILE", "PI_PAUSE_WINDOWS_FILE"):
        bare.setenv(setting, str(tmp_path / "broken.json"))

    assert pidispatch("pause").code == 0
    assert pidispatch("pause", "--scope", str(folder)).code == 0
    assert pidispatch("pause", "--scope", "project:web").code == 1
    assert pidispatch("resume").code == 0
