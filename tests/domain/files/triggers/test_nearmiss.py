"""Keys that were meant to be others: refused where their silent absence would cost money or start too much."""

import pytest

from tests.domain.files.triggers.builders import BY_NAME, LABEL, changed, one, parse, refused

MEANT = {
    "waitFor": ["waitfor", "WaitFor", "wait_for", "wait-for", "WAIT FOR", "waitFro", "watFor"],
    "backend": ["Backend", "backends", "back_end", "BACKENDS", "backed", "backendd"],
    "excludeTools": ["excludetools", "exclude_tools", "exclude-tool", "excludeTool", "excludedTools", "excludTools"],
    "provider": ["Provider", "providers", "providerId", "provider_ids", "provider-name", "provder"],
    "model": ["Model", "modelId", "model_name", "MODEL", "m0del", "mdel"],
    "models": ["Models", "modelIds", "model_names", "allowedModels", "allowed_model"],
    "maxTurns": ["maxturns", "max_turns", "maxTurn", "max turns", "maxTruns", "maxTurnss"],
    "maxCostUsd": ["maxcostusd", "max_cost_usd", "maxCost", "MaxCostUSD", "maxC0stUsd", "maxCostUs", "maxCotsUsd"],
    "priority": ["Priority", "priorities", "priorty"],
}  # fmt: skip
LOOK_ALIKES = {
    "waitFor": ["w\u0430itFor", "waitF\u043er", "\uff57aitFor", "wa\u0131tFor"],
    "backend": ["b\u0430ckend", "backe\u0578d", "b\u0430\u0441k\u0435nd"],
    "excludeTools": ["excludeT\u043e\u043els", "\u0435xcludeTools"],
    "provider": ["pr\u043evider", "\u0440rovider"],
    "model": ["m\u043edel", "mod\u0435l"],
    "models": ["allowedM\u043edels"],
    "maxTurns": ["m\u0430xTurns"],
    "maxCostUsd": ["maxC\u043estUsd", "max\u0421ostUsd", "maxCostU\u0455d", "max\u00a0costusd"],
    "priority": ["pri\u043erity"],
}
WRONG = [(name, key) for table in (MEANT, LOOK_ALIKES) for name, keys in table.items() for key in keys]


@pytest.mark.parametrize("entry", ["cron", "label", "issue"])
@pytest.mark.parametrize(("name", "key"), WRONG)
def test_a_misspelling_under_run_is_refused(entry, name, key):
    problem = refused(changed(BY_NAME[entry], run={key: None}))

    assert "is not a field; run." in problem
    assert f"run.{name}" in problem or name in {"model", "models"}


@pytest.mark.parametrize("key", [key for _, key in WRONG] + list(MEANT))
def test_every_spelling_under_on_is_refused_the_right_one_too(key):
    assert "is not a field; run." in refused(changed(LABEL, on={key: None}))


def test_the_problem_says_what_is_meant_and_shows_the_key_safely():
    assert refused(changed(LABEL, run={"max_cost_usd": "5"})) == (
        "triggers.json:1: triggers[0]: run.max_cost_usd is not a field; run.maxCostUsd is, and it must be spelled and placed like that"
    )
    assert 'run."max\\ncost" is not a field' in refused(changed(LABEL, run={"max\ncost": 1}))


@pytest.mark.parametrize(
    "key",
    ["mode", "modal", "llm", "engine", "imgae", "denyTools", "turns", "cost", "fl\u00f6w", "warten_f\u00fcr", "tool", "x" * 300, "",
     "\u4efb\u52a1", "wait", "for", "back", "end", "pi"],
)  # fmt: skip
def test_other_unknown_keys_are_only_noted(key):
    assert len(parse(changed(LABEL, run={key: 1}, on={key: 1})).notes) == 2


@pytest.mark.parametrize(
    ("part", "key", "meant"),
    [
        ("on", "repos", "on.repo"), ("on", "Repo", "on.repo"), ("on", "repository", "on.repo"), ("run", "repo", "on.repo"),
        ("on", "TZ", "on.tz"), ("on", "timezone", "on.tz"), ("run", "tz", "on.tz"), ("on", "Missed", "on.missed"),
        ("on", "whileRunning", "on.while_running"), ("on", "while-running", "on.while_running"),
        ("on", "whil_running", "on.while_running"), ("run", "while_running", "on.while_running"), ("on", "priority", "run.priority"),
    ],
)  # fmt: skip
def test_our_own_keys_are_as_strict(part, key, meant):
    assert f"is not a field; {meant} is" in refused(changed(LABEL, **{part: {key: None}}))


@pytest.mark.parametrize("key", ["repo", "tz", "while_running", "priority"])
def test_our_own_keys_do_not_stand_beside_on_and_run(key):
    assert f"triggers[0]: {key} is not a field" in refused(changed(LABEL, **{key: "x"}))


def test_the_right_names_are_no_misspellings():
    one(
        changed(
            BY_NAME["azure"], run={"backend": "local", "models": ["a/b"], "priority": 1, "repository": "web"}
        )
    )
