"""Read skills from a directory of the operator's: all of it or none, and nothing from beside it."""

import os
import shutil

import pytest

from pidispatch.errors import FolderRefused, SkillsRefused
from pidispatch.files import skills
from pidispatch.files.skills import check_skills, read_skills

SKILL = "---\nname: tidy\ndescription: tidy up\n---\nDo it.\n"


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "skills"
    (made / "tidy/scripts").mkdir(parents=True)
    (made / "tidy/SKILL.md").write_text(SKILL)
    (made / "tidy/scripts/_help.py").write_bytes(b"\xff")
    return made


def refusal(folder):
    with pytest.raises(SkillsRefused) as refused:
        read_skills(bytes(folder))
    assert refused.value.reason == "skills-dir-unusable"
    return refused.value.why, str(refused.value)


def test_every_file_is_read_by_its_relative_path(folder):
    assert read_skills(bytes(folder)) == {
        "tidy/SKILL.md": SKILL.encode(),
        "tidy/scripts/_help.py": b"\xff",
    }


def test_names_that_begin_with_a_dot_are_left_out(folder):
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("x")
    (folder / "tidy/.env").symlink_to("/etc/shadow")

    assert set(read_skills(bytes(folder))) == {"tidy/SKILL.md", "tidy/scripts/_help.py"}


@pytest.mark.parametrize("made", ["nothing", "file", "link", "relative", "no name"])
def test_what_is_no_directory_is_missing(tmp_path, folder, monkeypatch, made):
    monkeypatch.chdir(tmp_path)
    path = {"relative": b"skills", "no name": b""}.get(made, bytes(tmp_path / made))
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(folder)

    for look in (check_skills, read_skills):
        with pytest.raises(FolderRefused) as refused:
            look(path)
        assert refused.value.reason == "skills-dir-missing"


@pytest.mark.parametrize("make", ["link", "link out", "pipe"])
def test_what_is_no_regular_file_refuses_all_and_is_named(folder, tmp_path, make):
    place = folder / "tidy/thing"
    match make:
        case "link":
            place.symlink_to("SKILL.md")
        case "link out":
            place.symlink_to("/etc")
        case _:
            os.mkfifo(place)

    why, problem = refusal(folder)

    assert why == "not-regular"
    assert str(place) in problem


def test_a_directory_that_is_a_link_is_not_followed(folder, tmp_path):
    (tmp_path / "beside").mkdir()
    (folder / "other").symlink_to(tmp_path / "beside")

    assert refusal(folder)[0] == "not-regular"


@pytest.mark.parametrize("name", ["a b", "-x", "naïve", "a\nb", "x" * 65, "a:b", "end."])
def test_a_name_that_is_not_plain_is_refused(folder, name):
    (folder / "tidy" / name).write_text("x")

    assert refusal(folder)[0] == "bad-name"


def test_number_depth_and_bytes_are_bounded_and_the_file_is_named(folder, monkeypatch):
    deep = folder / "a/b/c/d/e"
    deep.mkdir(parents=True)
    (deep / "at-the-end").write_text("x")
    assert "a/b/c/d/e/at-the-end" in read_skills(bytes(folder))
    (deep / "f").mkdir()
    assert refusal(folder)[0] == "too-deep"
    shutil.rmtree(folder / "a")

    for number in range(63):
        (folder / f"tidy/{number}").write_text("x")
    why, problem = refusal(folder)
    assert (why, "64 in a skill" in problem) == ("too-many", True)
    for number in range(63):
        (folder / f"tidy/{number}").unlink()

    (folder / "tidy/large").write_bytes(bytes(skills.MOST_BYTES_OF_A_FILE + 1))
    why, problem = refusal(folder)
    assert (why, str(folder / "tidy/large") in problem) == ("too-large", True)
    (folder / "tidy/large").write_bytes(bytes(skills.MOST_BYTES_OF_A_FILE))
    assert len(read_skills(bytes(folder))) == 3

    monkeypatch.setattr(skills, "MOST_BYTES", skills.MOST_BYTES_OF_A_FILE)
    assert refusal(folder)[0] == "too-large"
    (folder / "tidy/large").unlink()
    monkeypatch.setattr(skills, "MOST_FILES", 1)
    assert refusal(folder)[0] == "too-many"


def test_a_directory_with_endless_entries_is_not_listed_to_its_end(folder, monkeypatch):
    monkeypatch.setattr(skills, "MOST_ENTRIES", 3)
    for number in range(4):
        (folder / f".{number}").touch()

    assert refusal(folder)[0] == "too-many"


def test_a_directory_without_a_skill_is_a_mistake(tmp_path):
    (tmp_path / "README.md").write_text("nothing here")

    assert refusal(tmp_path)[0] == "no-skill"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_cannot_be_read_is_named(folder):
    (folder / "tidy").chmod(0)

    assert refusal(folder)[0] == "unreadable"
