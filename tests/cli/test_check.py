"""`check`: files are judged before they are put in place."""

import pytest

LIMITS = '{"version": 2, "limits": [{"scope": "project:web", "day": 1}]}'
PROJECTS = '{"version": 1, "projects": [{"id": "web", "members": ["/srv/site"]}]}'


@pytest.fixture
def folder(bare, tmp_path):
    (tmp_path / "scoped-limits.json").write_text(LIMITS)
    (tmp_path / "projects.json").write_text(PROJECTS)
    return tmp_path


def test_good_files_are_told_with_what_they_hold(command, folder):
    said = command("check", "scoped-limits.json", "projects.json")

    assert said.code == 0
    assert said.out.splitlines() == [
        "ok: scoped-limits.json: scoped-limits, version 2, 1 row, 1 cap",
        "ok: projects.json: projects, 1 project, 1 member",
    ]
    assert said.err == ""


def test_every_problem_is_told_with_file_line_entry_and_field(command, folder):
    (folder / "bad.json").write_text(
        '{"version": 1, "limits": [\n{"scope": "acme/web", "day": 0},\n{"scope": "*", "day": 1}]}'
    )

    said = command("check", "bad.json", "projects.json")

    assert said.code == 2
    assert said.err.splitlines() == [
        'pidispatch: bad.json:2: limits[0] (scope "acme/web"): day must be an integer >= 1, written without quotes',
        'pidispatch: bad.json:3: limits[1] (scope "*"): scope must not be "*": give one row for each scope',
    ]
    assert said.out == "ok: projects.json: projects, 1 project, 1 member\n"


def test_files_that_speak_of_each_other_are_judged_together(command, folder):
    (folder / "projects.json").write_text(PROJECTS.replace("web", "api"))

    said = command("check", "scoped-limits.json", "projects.json")

    assert said.code == 2
    assert "names a project that the projects file does not have" in said.err


def test_a_program_gets_one_document(command, folder):
    (folder / "x").write_text('{"dailyCap": 0}')

    said = command("check", "--json", "--as", "settings", "x")

    assert said.code == 2
    (only,) = said.document
    assert (only["file"], only["kind"], only["ok"], only["summary"], only["notes"]) == (
        "x",
        "settings",
        False,
        "refused",
        [],
    )
    assert only["problems"][0].startswith("x:1: dailyCap must be")


@pytest.mark.parametrize(
    ("name", "told"), [("none.json", "does not exist"), (".", "is not a regular file"), ("odd", "--as")]
)
def test_what_cannot_be_judged_is_refused(command, folder, name, told):
    (folder / "odd").write_text("{}")

    said = command("check", name)

    assert said.code == 2
    assert told in said.err


def test_a_name_with_control_characters_reaches_no_terminal_as_it_is(command, folder):
    (folder / "projects.json").write_text('{"version": 1, "projects": [{"id": "\\u001b[2J", "members": []}]}')

    said = command("check", "projects.json")

    assert "\x1b" not in said.out + said.err


def test_prices_are_judged_as_the_other_files_are(command, folder):
    (folder / "prices.json").write_text('{"version": 1, "free": ["ollama/*"]}')
    (folder / "bad-prices.json").write_text('{"version": 1, "free": ["ollama"]}')

    said = command("check", "prices.json", "bad-prices.json")

    assert said.code == 2
    assert said.out == "ok: prices.json: prices, 0 prices, 1 free, 0 in a plan\n"
    assert said.err.startswith("pidispatch: bad-prices.json:1: free[0]: ")
