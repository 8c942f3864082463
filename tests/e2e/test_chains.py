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


def test_a_job_that_asks_for_itself_goes_on_until_the_depth_cap(installation):
    folder = with_skill(installation.repository("asks-again"))

    first = installation.run(folder, model="chain")
    eventually(lambda: all_ended(installation, first["public_id"]) == 3, "three runs have ended", seconds=90)

    tree = {row["chain_depth"]: row for row in installation.rows(RUN, id=first["public_id"])}
    assert [tree[depth]["outcome"] for depth in range(3)] == ["completed"] * 3
    assert [tree[depth]["chain_refused"] for depth in range(3)] == [1, 1, 2]
    assert [tree[depth]["parent"] for depth in range(3)] == [
        None,
        first["public_id"],
        tree[1]["public_id"],
    ]
    assert [tree[depth]["root"] for depth in range(3)] == [None, first["public_id"], first["public_id"]]
    assert [tree[depth]["trigger_type"] for depth in range(3)] == ["cli", "chain", "chain"]
    shown = json.loads(installation.pidispatch("show", tree[2]["public_id"], "--json").stdout)["chain"]
    assert [answer["refused"] for answer in shown["answers"]] == ["chain-depth-cap"] * 2
    told = installation.pidispatch("show", first["public_id"]).stdout
    assert tree[1]["public_id"] in told
    assert "chain-gate-deny no-skill" in told
    assert first["public_id"] in installation.pidispatch("show", tree[1]["public_id"]).stdout


OF_THE_CHAIN = " FROM runs r LEFT JOIN runs t ON t.id = r.root_id WHERE :id IN (r.public_id, t.public_id)"
RUN = (
    "SELECT r.public_id, r.outcome, r.trigger_type, r.chain_refused, r.chain_depth, t.public_id AS root,"
    f" (SELECT p.public_id FROM runs p WHERE p.id = r.parent_id) AS parent {OF_THE_CHAIN}"
)


def all_ended(installation, first):
    counted = installation.one(
        f"SELECT count(*) AS runs, count(*) FILTER (WHERE r.state = 'ended') AS ended {OF_THE_CHAIN}",
        id=first,
    )
    return counted["runs"] if counted["runs"] == counted["ended"] else 0
