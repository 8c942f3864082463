"""What bounds a run, kept by a real box: tools that are gone, skills that are given, what the agent is told."""

import json
import os

import pytest

from tests.e2e.conftest import an_installation
from tests.e2e.installation import OWNER

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]

SKILL = "---\nname: {name}\ndescription: {what}\n---\n"


def asked_by(installation, folder):
    """The bodies of the model calls of the run in this folder, by its prompt."""
    return [each.body for each in installation.provider.asked if f"work in {folder.name}" in str(each.body)]


def system_text(body):
    """What the model was told before the first word of the prompt."""
    roles = ("system", "developer")
    return "\n".join(str(each["content"]) for each in body["messages"] if each["role"] in roles)


def given_away(folder):
    for path in (folder, *folder.rglob("*")):
        os.lchown(path, OWNER, OWNER)


def a_skill(folder, name, what):
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(SKILL.format(name=name, what=what))


def test_an_excluded_tool_is_gone_whatever_the_model_calls(installation):
    folder = installation.repository("without-tools")

    answer = installation.run(folder, "--exclude-tools", "bash,write")

    first, *rest = asked_by(installation, folder)
    tools = {tool["function"]["name"] for tool in first["tools"]}
    assert not {"bash", "write"} & tools
    assert {"read", "edit"} <= tools
    results = [each for each in rest[0]["messages"] if each["role"] == "tool"]
    assert "not found" in str(results[-1]["content"])  # the script's first step calls bash
    assert not (folder / "made-by-agent.txt").exists()
    shown = json.loads(installation.pidispatch("show", answer["public_id"], "--json").stdout)
    assert shown["bounds"]["excluded_tools"] == ["bash", "write"]
    assert "bash, write" in installation.pidispatch("show", answer["public_id"]).stdout


def test_the_agent_is_told_the_rules_of_its_box_and_how_to_ask_for_more(installation):
    folder = installation.repository("told")
    (folder / ".pi").mkdir()
    (folder / ".pi/APPEND_SYSTEM.md").write_text("We spell it colour (persona-of-the-repository).")
    given_away(folder)

    installation.run(folder, "--force")

    text = system_text(asked_by(installation, folder)[0])
    places = [
        text.find(word) for word in ("floor-rules-7c1e", "outbox-protocol-7c1e", "persona-of-the-repository")
    ]
    assert -1 not in places
    assert places == sorted(places)


@pytest.fixture(scope="module")
def bounded():
    """An installation whose runs ask for no others, and with a schedule for the folder `given-skills`."""
    for made in an_installation():
        triggers, folder = made.root / "triggers.json", made.repository("given-skills")
        run = {"kind": "local", "folder": str(folder), "flow": "tidy", "task": f"work in {folder.name}"}
        bounds = {"skillsDir": str(made.root / "skills"), "maxCostUsd": "0.25", "models": ["scripted/happy"]}
        entry = {"on": {"type": "cron", "id": "nightly", "pattern": "0 0 1 1 *"}, "run": {**run, **bounds}}
        triggers.write_text(json.dumps({"triggers": [entry]}))
        (made.root / "skills").mkdir()
        made.environment |= {"PI_CHAIN_DEPTH_MAX": "0", "PI_TRIGGERS_FILE": str(triggers)}
        made.prices(models={"scripted/happy": {"input": 1, "output": 1}})
        made.start()
        yield made


def test_a_run_whose_chain_cannot_go_on_is_told_of_no_outbox(bounded):
    folder = bounded.repository("no-chains")

    bounded.run(folder)

    text = system_text(asked_by(bounded, folder)[0])
    assert "floor-rules-7c1e" in text
    assert "outbox-protocol" not in text


def test_a_schedules_skills_reach_the_model_and_the_repositorys_own_go_before_them(bounded):
    folder = bounded.root / "repos" / "given-skills"
    a_skill(bounded.root / "skills", "tidy", "tidy up as the operator does (given-to-the-run)")
    a_skill(bounded.root / "skills", "sweep", "sweep (given-to-the-run)")
    a_skill(folder / ".pi/skills", "sweep", "sweep (of-the-repository)")
    given_away(folder)

    done = json.loads(bounded.pidispatch("run", "--trigger", "nightly", "--wait", "--json").stdout)["run"]

    assert done["outcome"] == "completed"
    first = asked_by(bounded, folder)[0]
    text = system_text(first)
    assert "tidy up as the operator does (given-to-the-run)" in text
    assert "/job/skills/tidy/SKILL.md" in text
    assert "sweep (of-the-repository)" in text
    assert "sweep (given-to-the-run)" not in text
    assert "Use the skill `tidy`" in str(first["messages"])
    shown = json.loads(bounded.pidispatch("show", done["public_id"], "--json").stdout)
    assert shown["bounds"] == {
        "cost_cap_micros": 250_000,
        "cost_cap_asked": 250_000,
        "allowed_models": ["scripted/happy"],
        "excluded_tools": None,
    }
    assert shown["payload"]["skills_dir"] == str(bounded.root / "skills")
    entry_shown = bounded.pidispatch("triggers", "show", "nightly").stdout
    assert "run.maxCostUsd" in entry_shown
    assert "not enforced" not in entry_shown
