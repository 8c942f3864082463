"""What pi is told and given beside its own, in its order."""

import os
from pathlib import Path

import pytest
from runner.layers import PERSONA_BYTES, has_skill, skill_folders, system_prompts

from tests.runner.support import IMAGE, Box

FLOOR = str(IMAGE / "floor")


@pytest.fixture
def places(tmp_path):
    for name in ("job", "workspace/.pi"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def names(paths):
    return [Path(path).name for path in paths]


def test_the_rules_come_first_then_the_outbox_then_the_repositorys_own_words(places):
    workspace = str(places / "workspace")
    assert names(system_prompts(FLOOR, workspace, chains=False)) == ["HARD_RULES.md"]
    (places / "workspace/.pi/APPEND_SYSTEM.md").write_text("be brief")

    assert names(system_prompts(FLOOR, workspace, chains=True)) == [
        "HARD_RULES.md",
        "OUTBOX_PROTOCOL.md",
        "APPEND_SYSTEM.md",
    ]


def test_a_flow_has_a_skill_where_a_file_says_so(places):
    given, own = places / "job/skills", places / "workspace/.pi/skills"
    for folder in (given / "tidy", given / "empty", own):
        folder.mkdir(parents=True)
    (given / "tidy/SKILL.md").write_text("---\nname: tidy\n---\n")
    (own / "linked").symlink_to(given / "tidy")
    (given / "empty/SKILL.md").mkdir()
    folders = skill_folders(str(places / "job"), str(places / "workspace"))

    assert [has_skill(folders, name) for name in ("tidy", "empty", "linked", "other")] == [
        True,
        False,
        True,
        False,
    ]
    assert not has_skill((), "tidy")


@pytest.mark.parametrize("made", ["link", "pipe", "directory", "large"])
def test_own_words_that_are_no_small_file_are_left_out(places, made):
    persona = places / "workspace/.pi/APPEND_SYSTEM.md"
    if made == "link":
        persona.symlink_to("/etc/passwd")
    elif made == "pipe":
        os.mkfifo(persona)
    elif made == "directory":
        persona.mkdir()
    else:
        persona.write_bytes(b"x" * (PERSONA_BYTES + 1))

    assert names(system_prompts(FLOOR, str(places / "workspace"), chains=False)) == ["HARD_RULES.md"]


def test_an_image_without_its_rules_starts_no_agent(places):
    with pytest.raises(OSError, match=r"HARD_RULES\.md"):
        system_prompts(str(places), str(places / "workspace"), chains=False)


def test_the_repositorys_skills_go_before_those_that_were_given(places):
    job, workspace = str(places / "job"), str(places / "workspace")
    assert skill_folders(job, workspace) == ()
    (places / "job/skills").mkdir()
    assert skill_folders(job, workspace) == (f"{job}/skills",)
    (places / "workspace/.pi/skills").mkdir()

    assert skill_folders(job, workspace) == (f"{workspace}/.pi/skills", f"{job}/skills")


@pytest.mark.parametrize(("chains", "told"), [("1", True), (None, False), ("0", False)])
def test_pi_is_given_the_files_and_told_of_the_outbox_only_where_that_leads_somewhere(
    tmp_path, gateway, chains, told
):
    (tmp_path / "job/skills").mkdir(parents=True)
    box = Box(tmp_path, gateway, env={} if chains is None else {"PI_DISPATCH_CHAINS": chains})
    box.end()

    given = box.record["arguments"]
    texts = [given[at + 1] for at, word in enumerate(given) if word == "--append-system-prompt"]
    assert texts == [f"{FLOOR}/HARD_RULES.md", *([f"{FLOOR}/OUTBOX_PROTOCOL.md"] if told else [])]
    assert given[given.index("--skill") + 1] == str(tmp_path / "job/skills")


def test_the_texts_say_what_they_must():
    rules, outbox = ((IMAGE / "floor" / name).read_text() for name in ("HARD_RULES.md", "OUTBOX_PROTOCOL.md"))

    assert "floor-rules-7c1e" in rules
    for words in ("/workspace", "/job", "data", "Never merge", "--force-with-lease", "credentials", "stuck"):
        assert words in rules
    assert "outbox-protocol-7c1e" in outbox
    for words in (
        "/outbox",
        "request-<n>.json",
        '"flow"',
        '"task"',
        "4096",
        "ai-trigger: allow",
        "`command`",
    ):
        assert words in outbox
