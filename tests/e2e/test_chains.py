"""A job whose agent asks for another run from its outbox, on a whole installation."""

import json
import os
import subprocess

import pytest

from tests.e2e.installation import OWNER, eventually

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]

SKILL = "---\nname: again\ndescription: once more\nai-trigger: allow\n---\nDo it once more.\n"


def with_skill(folder):
    skill = folder / ".pi/skills/again/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "safe.directory=*"]
    for step in (["add", "-A"], ["commit", "-q", "-m", "a skill"]):
        subprocess.run(["git", *identity, *step], cwd=folder, check=True, capture_output=True)
    for path in (folder, *folder.rglob("*")):
        os.lchown(path, OWNER, OWNER)
    return folder


def test_a_job_that_asks_for_itself_goes_on_until_the_depth_cap(fresh):
    fresh.environment |= {"PI_MODEL": "chain", "PI_CHAIN_DEPTH_MAX": "2"}
    fresh.start()
    folder = with_skill(fresh.repository("asks-again"))

    first = fresh.run(folder, model="chain")
    eventually(lambda: all_ended(fresh) == 3, "three runs have ended", seconds=90)

    tree = {depth: fresh.one(RUN, depth=depth) for depth in range(3)}
    assert [tree[depth]["outcome"] for depth in range(3)] == ["completed"] * 3
    assert [tree[depth]["chain_refused"] for depth in range(3)] == [1, 1, 2]
    assert [tree[depth]["parent"] for depth in range(3)] == [
        None,
        first["public_id"],
        tree[1]["public_id"],
    ]
    assert [tree[depth]["root"] for depth in range(3)] == [None, first["public_id"], first["public_id"]]
    assert [tree[depth]["trigger_type"] for depth in range(3)] == ["cli", "chain", "chain"]
    shown = json.loads(fresh.pidispatch("show", tree[2]["public_id"], "--json").stdout)["chain"]
    assert [answer["refused"] for answer in shown["answers"]] == ["chain-depth-cap"] * 2
    told = fresh.pidispatch("show", first["public_id"]).stdout
    assert tree[1]["public_id"] in told
    assert "chain-gate-deny no-skill" in told
    assert first["public_id"] in fresh.pidispatch("show", tree[1]["public_id"]).stdout


RUN = (
    "SELECT r.public_id, r.outcome, r.trigger_type, r.chain_refused, p.public_id AS parent, t.public_id AS root FROM runs r"
    " LEFT JOIN runs p ON p.id = r.parent_id LEFT JOIN runs t ON t.id = r.root_id WHERE r.chain_depth = :depth"
)


def all_ended(installation):
    counted = installation.one(
        "SELECT count(*) AS runs, count(*) FILTER (WHERE state = 'ended') AS ended FROM runs"
    )
    return counted["runs"] if counted["runs"] == counted["ended"] else 0
