"""`run`: each row of its grammar accepted and refused, on each type it is legal on."""

import pytest

from tests.domain.files.triggers.builders import (
    ABSENT,
    AZURE,
    BY_NAME,
    COMMENT,
    CRON,
    ISSUE,
    LABEL,
    PULL,
    changed,
    one,
    refused,
)

CRON_COMMAND = {"flow": ABSENT, "task": ABSENT, "command": "tidy all"}
COMMAND = {"flow": ABSENT, "command": "fix it"}
SECRETS = {"TOKEN": "op://vault/item"}
MANY = {f"S{n}": "ref" for n in range(17)}
IN_ANY = ["cron", "label", "comment", "pull", "close", "issue", "azure"]
IN_FORGES = IN_ANY[1:]

REFUSED_ANYWHERE = [
    ({"flow": ABSENT}, "run.flow must be a text that is not empty (or use run.command)"),
    ({"flow": ""}, "run.flow must be a text that is not empty"),
    ({"flow": 5}, "run.flow must be a text that is not empty"),
    ({"command": "x"}, "run.command does not go with run.flow"),
    ({"command": None}, "run.command does not go with run.flow"),
    ({"flow": None, "command": "x", "task": ABSENT}, "run.command does not go with run.flow"),
    ({"flow": ABSENT, "command": " "}, "run.command must be a text that is not empty"),
    ({"flow": ABSENT, "command": "x "}, "run.command must not begin or end with space"),
    ({"flow": ABSENT, "command": "/x"}, "run.command must not begin with a slash"),
    ({"flow": ABSENT, "command": "x\ny"}, "run.command must not hold control characters"),
    ({"flow": ABSENT, "command": "x\x7fy"}, "run.command must not hold control characters"),
    ({"flow": ABSENT, "task": ABSENT, "command": "x", "resume": True}, "run.resume does not go with run.command"),
    ({"packages": "false"}, "run.packages must be true or false, written without quotes"),
    ({"packages": None}, "run.packages must be true or false"),
    ({"image": ""}, "run.image must be a text that is not empty"),
    ({"image": None}, "run.image must be a text that is not empty"),
    ({"image": " a"}, "run.image must not begin or end with space"),
    ({"image": "--help"}, "run.image must not begin with a dash"),
    ({"image": "a\x85b"}, "run.image must not hold control characters"),
    ({"skillsDir": []}, "run.skillsDir must be a text that is not empty"),
    ({"skillsDir": "/x "}, "run.skillsDir must not begin or end with space"),
    ({"resume": 1}, "run.resume must be true or false"),
    ({"secrets": None}, "run.secrets must be an object from 1 to 16 names"),
    ({"secrets": {}}, "run.secrets must be an object from 1 to 16 names"),
    ({"secrets": []}, "run.secrets must be an object from 1 to 16 names"),
    ({"secrets": MANY}, "run.secrets must be an object from 1 to 16 names"),
    ({"secrets": {"1A": "x"}}, 'run.secrets holds "1A", which is no name of a variable'),
    ({"secrets": {"A-B": "x"}}, 'run.secrets holds "A-B"'),
    ({"secrets": {"__proto__": "x"}}, 'run.secrets holds "__proto__"'),
    ({"secrets": {"TOKEN": ""}}, "run.secrets holds TOKEN without a reference"),
    ({"secrets": {"TOKEN": None}}, "run.secrets holds TOKEN without a reference"),
    ({"secrets": {"TOKEN": "x "}}, "run.secrets holds TOKEN with a reference that begins or ends with space"),
    ({"secrets": {"TOKEN": "-x"}}, "or begins with a dash"),
    ({"secretsProfile": "x"}, "run.secretsProfile needs run.secrets"),
    ({"secretsProfile": "", "secrets": SECRETS}, "run.secretsProfile must be a text that is not empty"),
    ({"secretsProfile": "a:b", "secrets": SECRETS}, "run.secretsProfile must be of letters, digits"),
    ({"backend": None}, "run.backend must be a text that is not empty"),
    ({"backend": "a,b"}, "run.backend must be of letters, digits"),
    ({"backend": "cloud"}, 'run.backend is unknown: "cloud"; known are local, podman'),
    ({"excludeTools": []}, "run.excludeTools must be a list of at least one tool of pi; known are read, bash"),
    ({"excludeTools": "bash"}, "run.excludeTools must be a list of at least one tool of pi"),
    ({"excludeTools": None}, "run.excludeTools must be a list"),
    ({"excludeTools": ["bash", "Bash"]}, 'run.excludeTools[1] is no tool of pi "Bash"'),
    ({"excludeTools": ["bash", "bash"]}, "run.excludeTools names a tool twice"),
    ({"tools": ["read"]}, "run.tools is not a field: tools can only be taken away"),
    ({"noTools": None}, "run.noTools is not a field"),
    ({"provider": 7}, "run.provider must be 1 to 64 of letters, digits, dot, dash and underscore"),
    ({"provider": "open router"}, "run.provider must be 1 to 64"),
    ({"provider": "a/b"}, "run.provider must be 1 to 64"),
    ({"provider": "a" * 65}, "run.provider must be 1 to 64"),
    ({"provider": "\u212aey"}, "run.provider must be 1 to 64"),
    ({"model": ""}, "run.model must be 1 to 64 of letters, digits and . _ - : / @"),
    ({"model": "../x"}, "run.model must be 1 to 64"),
    ({"model": "~"}, "run.model must be 1 to 64"),
    ({"model": "a" * 65}, "run.model must be 1 to 64"),
    ({"maxTurns": 0}, "run.maxTurns must be an integer from 1 to 2147483647"),
    ({"maxTurns": "5"}, "run.maxTurns must be an integer"),
    ({"maxTurns": 1.5}, "run.maxTurns must be an integer"),
    ({"models": []}, "run.models must be a list of 1 to 16 of provider/model"),
    ({"models": ["a/b"] * 17}, "run.models must be a list of 1 to 16"),
    ({"models": ["a/b", "b"]}, "run.models[1] must be provider/model"),
    ({"models": ["/b"]}, "run.models[0] must be provider/model"),
    ({"models": ["a/b", "A/B"]}, "run.models[1] is there twice (in any case)"),
    ({"provider": "a", "model": "B", "models": ["a/b"]}, "run.models must hold this entry's own provider/model"),
    ({"maxCostUsd": 0}, "run.maxCostUsd must be an amount of US dollars above 0"),
    ({"maxCostUsd": "1e2"}, "run.maxCostUsd must be an amount"),
    ({"maxCostUsd": "1.0000001"}, "run.maxCostUsd must be an amount"),
    ({"maxCostUsd": 1e-7}, "run.maxCostUsd must be an amount"),
    ({"maxCostUsd": 1000000.5}, "run.maxCostUsd must be an amount"),
    ({"maxCostUsd": "$5"}, "run.maxCostUsd must be an amount"),
    ({"maxCostUsd": True}, "run.maxCostUsd must be an amount"),
    ({"priority": 101}, "run.priority must be an integer from -100 to 100"),
    ({"priority": "5"}, "run.priority must be an integer from -100 to 100"),
    ({"priority": 0.5}, "run.priority must be an integer from -100 to 100"),
]  # fmt: skip


@pytest.mark.parametrize("name", IN_ANY)
@pytest.mark.parametrize(("run", "problem"), REFUSED_ANYWHERE)
def test_what_run_takes_nowhere_is_refused(name, run, problem):
    assert problem in refused(changed(BY_NAME[name], run=run))


@pytest.mark.parametrize("name", IN_ANY)
@pytest.mark.parametrize(
    "run",
    [
        {"packages": False}, {"packages": True}, {"image": "registry.internal:5000/team/img:1.2@sha256:00"}, {"skillsDir": "/skills"},
        {"resume": False}, {"secrets": SECRETS}, {"secrets": {f"S{n}": "ref" for n in range(16)}},
        {"secrets": SECRETS, "secretsProfile": "prod.1"}, {"secrets": {"DATABASE_URL": "x", "OPENAI_API_KEY": "y"}},
        {"backend": "local"}, {"backend": "podman"}, {"excludeTools": ["bash", "powershell"]},
        {"provider": None, "model": None, "maxTurns": None, "models": None, "maxCostUsd": None},
        {"provider": "OpenRouter", "model": "~vendor/Model:x@1"}, {"model": "@cf/vendor/model"}, {"maxTurns": 5.0},
        {"provider": "a", "model": "b/c", "models": ["a/b/c", "x/y"]}, {"models": ["a/b"]}, {"priority": -100}, {"priority": 1e2},
        {"maxCostUsd": 0.000001}, {"maxCostUsd": "1000000"}, {"maxCostUsd": 1e1}, {"maxCostUsd": "2.50"},
    ],
)  # fmt: skip
def test_what_run_takes_everywhere_is_accepted(name, run):
    one(changed(BY_NAME[name], run=run))


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ({"flow": "Fix"}, "run.flow must be 1 to 64 of a-z, 0-9, - and _"), ({"flow": "-fix"}, "run.flow must be 1 to 64"),
        ({"flow": "fix_"}, "run.flow must be 1 to 64"), ({"flow": "a" * 65}, "run.flow must be 1 to 64"),
        ({"flow": "fix\n"}, "run.flow must be 1 to 64"), ({"flow": "a:b"}, "run.flow must be 1 to 64"),
        ({**COMMAND, "instructions": "x"}, "run.instructions does not go with run.command"),
        ({"instructions": " "}, "run.instructions must be a text that is not empty"),
        ({"instructions": "x" * 2001}, "run.instructions must have at most 2000 characters"),
        ({"instructions": "\U0001f600" * 1001}, "run.instructions must have at most 2000 characters"),
        ({"secrets": SECRETS, "resume": True}, "run.secrets does not go with run.resume"),
        ({"portfolio": False}, "run.portfolio goes with cron alone"), ({"portfolio": None}, "run.portfolio goes with cron alone"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", IN_FORGES)
def test_what_run_of_a_forge_does_not_take_is_refused(name, run, problem):
    assert problem in refused(changed(BY_NAME[name], run=run))


@pytest.mark.parametrize("name", ["label", "comment", "pull", "azure"])
@pytest.mark.parametrize(
    ("run", "problem"),
    [
        ({"replicas": 1}, "run.replicas must be 2 or 3"), ({"replicas": 4}, "run.replicas must be 2 or 3"),
        ({"replicas": "2"}, "run.replicas must be 2 or 3"), ({"replicas": None}, "run.replicas must be 2 or 3"),
        ({"replicas": 2, "resume": True}, "run.replicas does not go with run.resume"),
    ],
)  # fmt: skip
def test_replicas_are_two_or_three(name, run, problem):
    assert problem in refused(changed(BY_NAME[name], run=run))
    assert one(changed(BY_NAME[name], run={"replicas": 3.0})).work.replicas == 3


@pytest.mark.parametrize("flow", ["a", "9", "fix-it_2", "a" * 64])
def test_a_flow_of_a_forge_is_the_name_of_a_skill(flow):
    assert one(changed(LABEL, run={"flow": flow})).work.ask.flow == flow


def test_a_flow_of_a_schedule_may_be_called_anything():
    assert one(changed(CRON, run={"flow": "My Flow"})).work.ask.flow == "My Flow"


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        *(({"folder": folder}, "run.folder must be an absolute path") for folder in ("site", "./site", "~/site", "~", "../x", "C:\\x", " /srv/x", "/a\0b")),
        *(({"skillsDir": folder}, "run.skillsDir must be an absolute path") for folder in ("skills", "~/skills")),
        ({"folder": ABSENT}, "run.folder must be a text that is not empty"), ({"folder": " "}, "run.folder must be a text"),
        ({"task": ABSENT}, "run.task must be a text that is not empty"), ({"task": "\n"}, "run.task must be a text"),
        ({**CRON_COMMAND, "task": "x"}, "run.task does not go with run.command"),
        ({**CRON_COMMAND, "task": None}, "run.task does not go with run.command"),
        ({"github": "true"}, "run.github must be true or false"), ({"github": None}, "run.github must be true or false"),
        ({"instructions": "x"}, "run.instructions does not go with cron: put it at the top of run.task"),
        ({"instructions": None}, "run.instructions does not go with cron"),
        ({"resume": True}, "run.resume does not go with cron yet"),
        ({"replicas": 2}, "run.replicas does not go with cron"), ({"replicas": "x"}, "run.replicas does not go with cron"),
        ({"portfolio": 1}, "run.portfolio must be true or false"),
        ({**CRON_COMMAND, "portfolio": True}, "run.portfolio does not go with run.command"),
    ],
)  # fmt: skip
def test_what_run_of_a_schedule_does_not_take_is_refused(run, problem):
    assert problem in refused(changed(CRON, run=run))


@pytest.mark.parametrize(
    "run", [CRON_COMMAND, {"github": True}, {"portfolio": True}, {**CRON_COMMAND, "portfolio": False}, {"repository": 5}]
)  # fmt: skip
def test_what_run_of_a_schedule_takes_is_accepted(run):
    one(changed(CRON, run=run))


def test_what_a_command_runs_is_its_lane():
    found = one(changed(LABEL, run=COMMAND)).work

    assert (found.ask.flow, found.ask.command, found.ask.lane) == (None, "fix it", "cmd:fix it")


def test_azure_is_told_where_to_clone_and_no_other_is():
    comment = changed(COMMENT, run={"kind": "azure"})

    assert "run.repository is missing" in refused(changed(AZURE, run={"repository": ABSENT}))
    assert "run.repository is missing" in refused(comment)
    assert one(changed(comment, run={"repository": "my web"})).work.repository == "my web"
    for bad in ("a/b", " a", "", 5, None):
        assert "run.repository must be the name of a repository" in refused(
            changed(AZURE, run={"repository": bad})
        )
    pull = changed(PULL, on={"action": ["created"]}, run={"kind": "azure"})
    for entry in (LABEL, COMMENT, ISSUE, PULL, pull):
        assert "run.repository goes with a label or comment of azure alone" in refused(
            changed(entry, run={"repository": "web"})
        )


@pytest.mark.parametrize(
    "name",
    ["GITHUB_TOKEN", "GH_TOKEN", "GITLAB_HOST", "GITEA_SERVER_TOKEN", "FORGEJO_HOST", "SYSTEM_ACCESSTOKEN", "AZURE_DEVOPS_ORG_URL",
     "GITHUB_APP_PRIVATE_KEY", "VALKEY_PASSWORD", "HTTPS_PROXY", "https_proxy", "NODE_USE_ENV_PROXY", "HOME", "PI_MODEL",
     "PI_MAX_COST_MICROS", "PI_ALLOWED_MODELS", "PLAYWRIGHT_BROWSERS_PATH", "PI_DISPATCH_KEYLESS", "PI_DISPATCH_CHILD_LEDGER",
     "OPENAI_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "AWS_ENDPOINT_URL", "GOOGLE_APPLICATION_CREDENTIALS"],
)  # fmt: skip
def test_a_secret_does_not_replace_what_the_box_is_given(name):
    assert f"run.secrets holds {name}, which pidispatch or pi itself sets or reads" in refused(
        changed(LABEL, run={"secrets": {name: "ref"}})
    )


def test_a_problem_of_a_secret_never_shows_its_reference():
    assert "hunter2" not in refused(changed(LABEL, run={"secrets": {"TOKEN": " hunter2"}}))


def test_everything_is_read_as_it_was_written():
    work = one(
        changed(
            LABEL,
            run={
                "provider": "Anthropic", "model": "Sonnet-X", "models": ["Anthropic/Sonnet-X", "b/c"], "maxTurns": 9, "maxCostUsd": "2.50",
                "image": "img:1", "packages": False, "skillsDir": "/skills", "instructions": " Be brief.\n", "resume": False,
                "secrets": {"B": "2", "A": "1"}, "secretsProfile": "prod", "replicas": 2, "backend": "podman",
                "excludeTools": ["ls", "bash"], "priority": -5,
            },
        )
    ).work  # fmt: skip

    assert (work.ask.provider, work.ask.model, work.ask.allowed_models) == (
        "Anthropic",
        "Sonnet-X",
        ("Anthropic/Sonnet-X", "b/c"),
    )
    assert (work.ask.max_turns, work.ask.cost_cap_micros, work.ask.image, work.packages) == (
        9,
        2_500_000,
        "img:1",
        False,
    )
    assert (work.ask.skills_dir, work.instructions, work.resume) == (b"/skills", " Be brief.\n", False)
    assert (work.secrets, work.secrets_profile) == ((("B", "2"), ("A", "1")), "prod")
    assert (work.replicas, work.backend, work.ask.excluded_tools, work.ask.priority) == (
        2,
        "podman",
        ("ls", "bash"),
        -5,
    )


def test_what_was_not_written_stays_unset():
    work = one(LABEL).work

    assert (work.packages, work.resume, work.github, work.portfolio, work.ask.image, work.ask.max_turns) == (
        None,
    ) * 6
    assert (work.secrets, work.ask.allowed_models, work.wait_for, work.ask.priority) == ((), None, (), 0)
