"""The order of the checks: of two problems of one entry, a person hears of the one that comes first in the grammar."""

from itertools import combinations

import pytest

from tests.domain.files.triggers.builders import ABSENT, BY_NAME, changed, problems

TAIL_OF_FORGES = [
    ({}, {"packages": 1}, "run.packages"),
    ({}, {"image": 1}, "run.image"),
    ({}, {"skillsDir": 1}, "run.skillsDir"),
    ({}, {"instructions": 1}, "run.instructions"),
    ({}, {"resume": 1}, "run.resume"),
    ({}, {"repository": "a/b"}, "run.repository"),
    ({}, {"replicas": 9}, "run.replicas"),
    ({}, {"secrets": 1}, "run.secrets"),
    ({}, {"secretsProfile": 1}, "run.secretsProfile"),
    ({}, {"Backend": "x"}, "run.Backend"),
    ({}, {"backend": 1}, "run.backend"),
    ({"waitFor": 1}, {}, "on.waitFor"),
    ({}, {"waitFor": 1}, "run.waitFor"),
    ({}, {"exclude_tools": 1}, "run.exclude_tools"),
    ({}, {"tools": 1}, "run.tools"),
    ({}, {"noTools": 1}, "run.noTools"),
    ({}, {"excludeTools": 1}, "run.excludeTools"),
    ({"model": 1}, {}, "on.model"),
    ({}, {"provider": 1}, "run.provider"),
    ({}, {"model": 1}, "run.model"),
    ({}, {"maxTurns": "x"}, "run.maxTurns"),
    ({}, {"models": 1}, "run.models"),
    ({}, {"maxCostUsd": []}, "run.maxCostUsd"),
    ({}, {"priority": "x"}, "run.priority"),
    ({"repos": 1}, {}, "on.repos"),
    ({"tz": 1}, {}, "on.tz"),
    ({"repo": 1}, {}, "on.repo"),
    ({"while_running": 1}, {}, "on.while_running"),
]
NARROWING = [
    ({"number": 1}, {}, "on.number"),
    ({"once": 1}, {}, "on.once"),
    ({"disarmed": 1}, {}, "on.disarmed"),
]
COMMAND = [
    ({}, {"command": ""}, "run.command"),
    ({}, {"flow": ""}, "run.flow"),
    ({}, {"flow": "No"}, "run.flow must be 1 to 64"),
]
FIRST = [({}, {"portfolio": 1}, "run.portfolio")]
ORDERS = {
    "cron": [
        ({"id": ""}, {}, "on.id"),
        ({"pattern": ""}, {}, "on.pattern must be a text"),
        ({"pattern": "x"}, {}, "on.pattern must have"),
        ({}, {"command": ""}, "run.command"),
        ({}, {"folder": ""}, "run.folder"),
        ({}, {"flow": ""}, "run.flow"),
        ({}, {"task": ""}, "run.task"),
        ({}, {"github": 1}, "run.github"),
        *(each for each in TAIL_OF_FORGES[:7] if each[2] != "run.repository"),
        *NARROWING,
        *TAIL_OF_FORGES[7:23],
        ({}, {"portfolio": 1}, "run.portfolio"),
        *TAIL_OF_FORGES[23:],
    ],
    "label": [*FIRST, ({"any": 1}, {}, "on.any"), *NARROWING, *COMMAND, *TAIL_OF_FORGES],
    "comment": [*FIRST, ({"phrase": ""}, {}, "on.phrase"), *NARROWING, *COMMAND, *TAIL_OF_FORGES],
    "issue": [
        *FIRST,
        ({"action": []}, {}, "on.action must be"),
        ({"action": ["x"]}, {}, "on.action[0]"),
        ({"none": []}, {}, "on.none"),
        ({"number": 0}, {}, "on.number"),
        ({"once": 1}, {}, "on.once"),
        ({"disarmed": 1}, {}, "on.disarmed"),
        *COMMAND,
        *TAIL_OF_FORGES,
    ],
    "pull": [
        *FIRST,
        ({"action": []}, {}, "on.action must be"),
        ({"action": ["x"]}, {}, "on.action[0]"),
        ({"action": ["closed", "opened"]}, {}, "on.action must not mix"),
        ({"reviewState": 1}, {}, "on.reviewState"),
        ({"any": 1}, {}, "on.any"),
        *NARROWING,
        *COMMAND,
        *TAIL_OF_FORGES,
    ],
}  # fmt: skip

# Without `once`, with which some of the later keys do not go.
BASES = {**BY_NAME, "issue": changed(BY_NAME["issue"], on={"once": False})}


def _both(earlier, later):
    keys = [set(part) for part in (*earlier[:2], *later[:2])]
    # A command beside a flow is a problem of the command, so those two cannot be written together.
    apart = not (keys[0] & keys[2] or keys[1] & keys[3])
    return apart and not ({"command", "flow"} <= keys[1] | keys[3])


PAIRS = [
    (name, earlier, later)
    for name, order in ORDERS.items()
    for earlier, later in combinations(order, 2)
    if _both(earlier, later)
]


@pytest.mark.parametrize("name", ORDERS)
def test_the_first_problem_is_the_one_that_is_told(name):
    for _, earlier, later in (pair for pair in PAIRS if pair[0] == name):
        run = {"flow": ABSENT, "task": ABSENT} if "command" in earlier[1] | later[1] else {}
        entry = changed(BASES[name], on={**earlier[0], **later[0]}, run={**run, **earlier[1], **later[1]})
        assert earlier[2] in problems(entry)[0], (earlier, later)


def test_all_pairs_that_can_be_written_are_tried():
    assert len(PAIRS) > 2000


def test_the_combination_is_told_before_the_shape():
    wait = {"waitFor": "nonsense"}

    assert "run.waitFor does not go with cron" in problems(changed(BY_NAME["cron"], run=wait))[0]
    assert "run.waitFor does not go with on.once" in problems(changed(BY_NAME["issue"], run=wait))[0]
    assert (
        "run.waitFor does not go with run.replicas"
        in problems(changed(BY_NAME["label"], run={**wait, "replicas": 2}))[0]
    )
    assert (
        "run.replicas does not go with cron"
        in problems(changed(BY_NAME["cron"], run={"replicas": "nonsense"}))[0]
    )


def test_a_second_comment_is_told_after_its_flow_and_before_its_tail():
    good = BY_NAME["comment"]

    assert "run.flow" in problems(good, changed(good, run={"flow": ""}))[0]
    assert "on.type comment is that of" in problems(good, changed(good, run={"image": 1}))[0]
