"""`settings.json`: its keys, what it takes to refuse the whole file, and what holds when it is merged."""

import contextlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.limits.settings import Effective, Overlay, merge, parse_overlay
from pidispatch.domain.limits.settingsedit import value_of, with_key
from pidispatch.domain.limits.settingskeys import KEYS, SettingKind, key_meant
from pidispatch.domain.text.jsonfile import Number, read_json
from pidispatch.errors import ConfigurationRefused

BASE = Effective(provider="anthropic", model="sonnet", max_turns=30, daily_cap=25, concurrency=3)
WHOLE = [name for name, key in KEYS.items() if key.kind is SettingKind.WHOLE]
AMOUNTS = [name for name, key in KEYS.items() if key.kind is SettingKind.AMOUNT]


def parse(**keys):
    return parse_overlay(json.dumps(keys).encode(), "settings.json")


def refused(content):
    with pytest.raises(ConfigurationRefused) as error:
        parse_overlay(
            content.encode() if isinstance(content, str) else json.dumps(content).encode(), "settings.json"
        )
    return "\n".join(error.value.problems)


def test_a_missing_file_sets_nothing():
    assert parse_overlay(None, "f") == parse() == Overlay()


def test_every_key_of_the_contract_is_known():
    assert set(KEYS) == {
        "model", "provider", "maxTurns", "dailyCap", "weeklyCap", "monthlyCap", "maxTokens", "dailyTokenCap",
        "concurrency", "softHoldPct", "maxCostUsd", "dailyCostUsd", "weeklyCostUsd", "monthlyCostUsd", "secretProfiles",
    }  # fmt: skip


def test_every_key_is_read():
    found = parse(
        provider="openai", model="gpt-x", maxTurns=5, maxTokens=6, dailyCap=7, weeklyCap=8, monthlyCap=9,
        softHoldPct=80, dailyTokenCap=10, concurrency=2, maxCostUsd="1.50", dailyCostUsd=20, weeklyCostUsd="30",
        monthlyCostUsd=0.5, secretProfiles={"npm": "/opt/npm.sh"},
    )  # fmt: skip

    assert found == Overlay("openai", "gpt-x", 5, 6, 7, 8, 9, 80, 10, 2, 1_500_000, 20_000_000, 30_000_000, 500_000,
                            {"npm": "/opt/npm.sh"})  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "1e21", '"5"', "true", "null", "[]", '"1,5"', '""'])
def test_a_count_is_a_whole_number_from_1(name, value):
    said = refused(f'{{"{name}": {value}}}')

    assert said.startswith(f"settings.json:1: {name} must be an integer")
    assert "leave it out" in said


@pytest.mark.parametrize(
    ("name", "largest"),
    [("concurrency", 10), ("softHoldPct", 99), ("maxTurns", 2**31 - 1), ("dailyCap", 2**53 - 1)],
)
def test_counts_have_bounds(name, largest):
    assert parse(**{name: largest})
    assert f"{name} must be" in refused({name: largest + 1})


@pytest.mark.parametrize("name", ["model", "provider"])
@pytest.mark.parametrize("value", ["", " ", 5, None, [], "a b", "-x", "a\nb"])
def test_a_name_is_a_word(name, value):
    assert f"{name} must be a name" in refused({name: value})


@pytest.mark.parametrize("name", AMOUNTS)
@pytest.mark.parametrize("value", ["0", '"0"', "-1", '"1,5"', '"1e2"', "1e2", "1000001", "0.0000001", "true", "null", '""', '"$5"', "[]"])  # fmt: skip
def test_an_amount_is_of_dollars(name, value):
    assert f"{name} must be an amount of US dollars" in refused(f'{{"{name}": {value}}}')


@pytest.mark.parametrize(
    "profiles",
    [
        [],
        "x",
        {"a b": "/x"},
        {"": "/x"},
        {"a": "x"},
        {"a": ""},
        {"a": 5},
        {"a": "~/x"},
        {"é": "/x"},
        {"a": "/x\n"},
    ],
)
def test_profiles_map_plain_names_to_absolute_paths(profiles):
    assert "secretProfiles must be an object" in refused({"secretProfiles": profiles})


def test_one_bad_key_refuses_the_whole_file_and_all_bad_ones_are_told():
    said = refused('{"dailyCap": 5,\n"maxTurns": 0,\n"concurrency": 11}')

    assert [line.split(" must")[0] for line in said.splitlines()] == [
        "settings.json:2: maxTurns",
        "settings.json:3: concurrency",
    ]


def test_problems_name_keys_and_never_values():
    values = ["s3cret-one", {"name": "s3cret-two"}]

    for name in KEYS:
        for value in values:
            if name not in {"model", "provider"} or value == values[1]:
                assert "s3cret" not in refused({name: value})
    assert "s3cret" not in repr(parse(secretProfiles={"a": "/s3cret"}))


@pytest.mark.parametrize(
    "content",
    ["[]", "5", "null", '"x"', "", "{", '{"dailyCap": 5, "dailyCap": 6}', '{"x": {"y": 1, "y": 2}}'],
)
def test_what_is_no_object_or_has_a_key_twice_is_refused(content):
    assert refused(content).startswith("settings.json:1: ")


def test_unknown_keys_are_dropped_and_told():
    found = parse(dailyCap=5, theme="dark")

    assert (found.daily_cap, found.unknown) == (5, ("theme",))
    assert found.notes[0] == 'settings.json:1: "theme" is unknown and ignored'


@pytest.mark.parametrize(
    ("spelled", "meant"),
    [
        ("maxcostusd", "maxCostUsd"), ("MAXCOSTUSD", "maxCostUsd"), ("MaxCostUsd", "maxCostUsd"), ("maxCostUSD", "maxCostUsd"),
        ("max_cost_usd", "maxCostUsd"), ("max-cost-usd", "maxCostUsd"), ("max.cost.usd", "maxCostUsd"),
        (" maxCostUsd ", "maxCostUsd"), ("max cost usd", "maxCostUsd"), ("max\u200bCostUsd", "maxCostUsd"),
        ("PI_MAX_COST_USD", "maxCostUsd"), ("pi_daily_cost_usd", "dailyCostUsd"), ("PIDISPATCH_WEEKLY_COST_USD", "weeklyCostUsd"),
        ("PI_MONTHLY_COST_USD", "monthlyCostUsd"), ("m\u0430xC\u043estUsd", "maxCostUsd"), ("maxC0stUsd", "maxCostUsd"),
        ("dai1yCostUsd", "dailyCostUsd"), ("weekIyCostUsd", "weeklyCostUsd"), ("maxCostU$d", "maxCostUsd"),
        ("\uff4daxCostUsd", "maxCostUsd"), ("m\u00e1xCostUsd", "maxCostUsd"), ("\u03bcaxCostUsd", "maxCostUsd"),
    ],
)  # fmt: skip
def test_a_near_miss_of_a_dollar_key_refuses_the_file(spelled, meant):
    said = refused({spelled: "5"})

    assert f"{meant} is, and it must be spelled like that" in said
    assert "5" not in said.replace(spelled, "").replace("settings.json:1", "")


@pytest.mark.parametrize(
    "spelled", ["DAILYCAP", "daily_cap", "PI_DAILY_CAP", "max-turns", "Concurrency", "soft hold pct"]
)
def test_a_near_miss_of_any_key_refuses_the_file(spelled):
    assert "and it must be spelled like that" in refused({spelled: 5})


@pytest.mark.parametrize("name", ["maxCost", "cost", "usd", "maxCostEur", "", "pi", "x" * 10_000, "theme"])
def test_other_names_are_no_near_misses(name):
    assert key_meant(name) is None


@given(st.sampled_from(AMOUNTS), st.data())
def test_case_and_separators_never_hide_a_dollar_key(name, data):
    spelled = "".join(
        data.draw(st.sampled_from(["", "_", "-", " ", "."]))
        + (char.upper() if data.draw(st.booleans()) else char.lower())
        for char in name
    )

    assert key_meant(spelled) == name


# Merging.


def test_the_overlay_wins_over_what_is_beneath_key_by_key():
    overlay = parse(model="opus", dailyCap=5, maxCostUsd="2", softHoldPct=50, secretProfiles={"a": "/a"})

    assert merge(overlay, BASE) == replace(
        BASE,
        model="opus",
        daily_cap=5,
        max_cost_micros=2_000_000,
        soft_hold_pct=50,
        secret_profiles={"a": "/a"},
    )
    assert merge(Overlay(), BASE) == BASE


@pytest.mark.parametrize("window", ["dailyCostUsd", "weeklyCostUsd", "monthlyCostUsd"])
def test_a_window_of_dollars_needs_the_cap_of_one_run_wherever_it_is_set(window):
    overlay = parse(**{window: "10"})
    attribute = KEYS[window].attribute

    assert merge(overlay, BASE) == (
        f"{window} is set and maxCostUsd is not: a limit of dollars needs the cap of one run as well",
    )
    assert isinstance(merge(overlay, replace(BASE, max_cost_micros=1)), Effective)
    assert isinstance(merge(parse(maxCostUsd="1"), replace(BASE, **{attribute: 5})), Effective)
    assert isinstance(merge(Overlay(), replace(BASE, **{attribute: 5})), tuple)


# Editing.


def edit(content, key, value):
    return with_key(content.encode() if content is not None else None, key, value).decode()


def edit_refused(content, key, value):
    with pytest.raises(ConfigurationRefused) as error:
        edit(content, key, value)
    return "\n".join(error.value.problems)


def test_a_key_is_set_and_every_other_stays_as_it_was():
    before = '{"theme": {"x": [1, 2.50, null]}, "maxCostUsd": 1.50, "dailyCap": 5.0}'

    after = edit(before, "dailyCap", "7")

    assert json.loads(after) == {"theme": {"x": [1, 2.5, None]}, "maxCostUsd": 1.5, "dailyCap": 7}
    assert "2.50" in after
    assert "1.50" in after
    assert list(json.loads(after)) == ["theme", "maxCostUsd", "dailyCap"]


def test_the_first_key_makes_the_file():
    assert edit(None, "model", "opus") == '{\n  "model": "opus"\n}\n'


def test_amounts_stay_the_text_they_are():
    assert json.loads(edit("{}", "maxCostUsd", "2.50")) == {"maxCostUsd": "2.50"}


def test_profiles_are_given_as_pairs():
    after = edit("{}", "secretProfiles", "npm:/opt/npm.sh, db:/opt/a:b.sh")

    assert json.loads(after) == {"secretProfiles": {"npm": "/opt/npm.sh", "db": "/opt/a:b.sh"}}
    assert value_of(after.encode(), "secretProfiles") == "npm:/opt/npm.sh,db:/opt/a:b.sh"
    for wrong in ("npm", "npm:x", ":/x", "a:/x,a:/y"):
        assert "secretProfiles must be" in edit_refused("{}", "secretProfiles", wrong)


def test_a_key_is_taken_out():
    assert edit('{"dailyCap": 5, "theme": 1}', "dailyCap", None) == '{\n  "theme": 1\n}\n'
    assert edit('{"theme": 1}', "theme", None) == edit("{}", "dailyCap", None) == "{}\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [("dailyCap", "0"), ("dailyCap", "05"), ("dailyCap", "5x"), ("dailyCap", "1e3"), ("dailyCap", ""), ("dailyCap", "-1"),
     ("dailyCap", "99999999999999999999"), ("concurrency", "11"), ("softHoldPct", "100"), ("maxCostUsd", "0"),
     ("maxCostUsd", "1,5"), ("maxCostUsd", "1e2"), ("model", ""), ("model", "a b"), ("dailyCap", "٣")],
)  # fmt: skip
def test_a_value_that_the_file_would_refuse_is_refused(key, value):
    assert edit_refused("{}", key, value).startswith(f"{key} must be")


def test_an_unknown_key_is_refused_with_the_one_that_was_meant():
    assert "did you mean dailyCap?" in edit_refused("{}", "DAILYCAP", "5")
    assert "did you mean maxCostUsd?" in edit_refused("{}", "PI_MAX_COST_USD", "5")
    assert '"theme" is no setting' in edit_refused("{}", "theme", "5")
    assert "is no setting" in edit_refused("{}", "theme", None)


def test_a_bad_key_can_be_put_right_but_no_other_can_be_set_beside_it():
    bad = '{"dailyCap": 0, "model": "x"}'

    assert "dailyCap must be" in edit_refused(bad, "model", "y")
    assert json.loads(edit(bad, "dailyCap", "5")) == {"dailyCap": 5, "model": "x"}
    assert json.loads(edit(bad, "dailyCap", None)) == {"model": "x"}
    assert json.loads(edit('{"MAXCOSTUSD": 5}', "MAXCOSTUSD", None)) == {}
    assert "not valid JSON" in edit_refused("{", "model", "y")


def test_a_value_is_shown_as_it_is_written():
    content = b'{"dailyCap": 5.0, "maxCostUsd": "2.50", "model": null, "x": [1]}'

    assert [value_of(content, key) for key in ("dailyCap", "maxCostUsd", "model", "x", "y")] == [
        "5.0",
        "2.50",
        None,
        "?",
        None,
    ]
    assert value_of(None, "dailyCap") is None


TEXTS = {
    SettingKind.WHOLE: "7",
    SettingKind.AMOUNT: "1.5",
    SettingKind.WORD: "x",
    SettingKind.PROFILES: "a:/a",
}


@settings(deadline=None)
@given(st.permutations(list(KEYS)))
def test_keys_set_one_after_the_other_read_back_and_unset_again(names):
    content = None
    for name in names:
        content = with_key(content, name, TEXTS[KEYS[name].kind])
    assert all(getattr(parse_overlay(content, "f"), key.attribute) is not None for key in KEYS.values())
    assert read_json(content, "f").value["dailyCap"].value == Number("7")

    for name in names:
        content = with_key(content, name, None)
    assert content == b"{}\n"


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)
)


@given(
    st.dictionaries(st.sampled_from(list(KEYS)) | st.text(max_size=8), VALUES, max_size=4)
    | st.binary(max_size=40)
)
def test_no_content_raises_anything_but_a_refusal(content):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    with contextlib.suppress(ConfigurationRefused):
        parse_overlay(data, "f")


@given(st.text(max_size=12), st.none() | st.text(max_size=8), st.none() | st.binary(max_size=20))
def test_no_edit_raises_anything_but_a_refusal_and_what_it_makes_is_accepted(key, value, content):
    try:
        new = with_key(content, key, value)
    except ConfigurationRefused:
        return
    parse_overlay(new, "f")
