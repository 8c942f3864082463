"""The prices file: figures, what is free, what a plan covers, and everything it may not say."""

import contextlib
import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.providers.pricefigures import Like
from pidispatch.domain.providers.pricesfile import parse_prices
from pidispatch.domain.providers.rates import Price, Rates, Rating, Tokens
from pidispatch.errors import ConfigurationRefused

PLAIN = {"input": 3, "output": 15}
FULL = {**PLAIN, "cacheRead": "0.3", "cacheWrite": 3.75, "cacheWrite1h": 6, "request": 0.01}


def text(models=None, **more):
    return json.dumps({"version": 1, "models": models or {}, **more}).encode()


def parse(models=None, **more):
    return parse_prices(text(models, **more), "prices.json")


def problems(models=None, **more):
    with pytest.raises(ConfigurationRefused) as error:
        parse(models, **more)
    assert all(problem.startswith("prices.json:1: ") for problem in error.value.problems)
    return [problem.removeprefix("prices.json:1: ") for problem in error.value.problems]


def rates(figures, name="vllm/qwen"):
    ((above, found),) = parse({name: figures}).find(*name.split("/", 1)).tiers
    assert above == 0
    return found


def test_figures_are_dollars_for_a_million_tokens():
    assert rates(FULL) == Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000, request=10_000)


def test_a_cache_whose_price_is_not_given_costs_what_input_does():
    assert rates(PLAIN) == Rates(3_000_000, 15_000_000, 3_000_000, 3_000_000, 3_000_000)
    assert rates({**PLAIN, "cacheWrite": 4}).cache_write_1h == 4_000_000


@pytest.mark.parametrize("name", ["anthropic/claude-x", "openrouter/anthropic/Claude-X"])
def test_claude_takes_twice_as_much_for_an_hour(name):
    assert rates(PLAIN, name).cache_write_1h == 6_000_000
    assert rates({**PLAIN, "cacheWrite": 7}, name).cache_write_1h == 7_000_000
    assert rates({**PLAIN, "cacheWrite1h": 1}, name).cache_write_1h == 1_000_000


def test_a_tier_holds_above_its_tokens():
    tiers = [{"above": 200_000, "input": 6, "output": 22.5}, {"above": 5e5, "input": 9, "output": 30}]

    price = parse({"x/y": {**PLAIN, "request": 1, "tiers": tiers}}).find("x", "y")

    assert [above for above, _ in price.tiers] == [0, 200_000, 500_000]
    assert [each.fresh for _, each in price.tiers] == [3_000_000, 6_000_000, 9_000_000]
    assert price.cost(Tokens(fresh=200_001)) == 1_000_000 + 1_200_006


def test_a_model_is_found_by_its_whole_name_in_any_case():
    file = parse({"OpenRouter/anthropic/Claude": PLAIN}, free=["Ollama/*", "vllm/Qwen"])

    assert file.find("openrouter", "Anthropic/claude").rating is Rating.PRICED
    assert file.find("ollama", "anything/at:all").rating is Rating.FREE
    assert file.find("VLLM", "qwen").rating is Rating.FREE
    for other in (("vllm", "qwen2"), ("openrouter", "claude"), ("olla", "ma/x"), ("ollama2", "x"), ("", "")):
        assert file.find(*other) is None


def test_a_plan_covers_models_and_has_a_name():
    file = parse(plan={"max": ["anthropic/claude-opus-4-5"], "coding": ["zai/*"]})

    covered = file.find("anthropic", "claude-opus-4-5")
    assert (covered.rating, covered.cost(Tokens(10**9, 10**9))) == (Rating.PLAN, 0)
    assert file.plan_of("Anthropic", "claude-opus-4-5") == "max"
    assert file.plan_of("zai", "glm-5") == "coding"
    assert file.plan_of("x", "y") is None


def test_the_version_is_of_the_bytes():
    content = text({"x/y": PLAIN}, free=["a/b"])

    file = parse_prices(content, "f")

    assert file.version == f"prices-file sha256:{sha256(content).hexdigest()[:12]}"
    assert {file.find("x", "y").version, file.find("a", "b").version} == {file.version}
    assert parse_prices(content + b"\n", "f").version != file.version


def test_a_model_may_cost_what_another_does():
    file = parse({"my/a": {"like": "my/B"}, "my/b": PLAIN, "my/c": {"like": "anthropic/claude-opus-4-5"}})

    assert file.find("my", "a") == file.find("my", "b")
    like = file.find("my", "c")
    assert like == Like("anthropic/claude-opus-4-5", file.version)
    assert (like.provider, like.model) == ("anthropic", "claude-opus-4-5")


def test_what_is_not_needed_may_be_left_out():
    empty = parse_prices(b'{"version": 1}', "f")

    assert empty.find("anthropic", "claude") is None


@pytest.mark.parametrize(
    ("figures", "told"),
    [
        ([], 'models["x/y"]: must be an object'),
        (None, 'models["x/y"]: must be an object'),
        ({"input": 3}, 'models["x/y"]: output must be given: dollars for a million tokens'),
        ({"output": 3}, 'models["x/y"]: input must be given: dollars for a million tokens'),
        ({"input": 0, "output": 0}, 'models["x/y"]: costs nothing; name the model in "free" if that is so'),
        ({**PLAIN, "input": -1}, "input must be an amount of US dollars from 0 to 1000000"),
        ({**PLAIN, "input": 0.0000001}, "input must be an amount of US dollars from 0 to 1000000"),
        ({**PLAIN, "output": True}, "output must be an amount of US dollars"),
        ({**PLAIN, "request": 1e7}, "request must be an amount of US dollars"),
        ({**PLAIN, "cache_read": 1}, '"cache_read" is unknown here; known are input, output, cacheRead,'),
        ({**PLAIN, "cacheread": 1}, '"cacheread" is unknown here'),
        ({**PLAIN, "tiers": {}}, "tiers must be a list"),
        ({**PLAIN, "tiers": [5]}, "tiers[0]: must be an object"),
        ({**PLAIN, "tiers": [PLAIN]}, "tiers[0]: above must be given"),
        ({**PLAIN, "tiers": [{**PLAIN, "above": 0}]}, "tiers[0]: above must be an integer"),
        ({**PLAIN, "tiers": [{"above": 5, "input": 3}]}, "tiers[0]: output must be given"),
        ({**PLAIN, "tiers": [{**PLAIN, "above": 5, "request": 1}]}, '"request" is unknown here'),
        ({**PLAIN, "tiers": [{**PLAIN, "above": 5}] * 2}, "tiers must ascend"),
        ({**PLAIN, "tiers": [{**PLAIN, "above": 5, "input": 0, "output": 0}]}, "tiers[0]: costs nothing"),
        ({**PLAIN, "cacheRead": 1, "tiers": [{**PLAIN, "above": 5}]},
         'models["x/y"]: tiers[0]: cacheRead must be given, since the entry has it'),
        ({"like": 5}, "like must be a text"),
        ({"like": "opus"}, "like must name a model as provider/model"),
        ({"like": "anthropic/*"}, "like must name a model as provider/model"),
        ({"like": "X/Y"}, "like must name another model"),
        ({"like": "a/b", "input": 3}, "input must not stand beside like"),
    ],
)  # fmt: skip
def test_figures_that_are_not_understood_are_refused(figures, told):
    assert any(told in problem for problem in problems({"x/y": figures}))


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"models": []}, "models must be an object from provider/model to what it costs"),
        ({"free": {}}, "free must be a list of provider/model or provider/*"),
        ({"free": [5]}, "free[0]: must be a text"),
        ({"free": ["*"]}, 'free[0]: "*" is not provider/model or provider/*'),
        ({"free": ["*/*"]}, 'free[0]: "*/*" is not'),
        ({"free": ["a/b*"]}, 'free[0]: "a/b*" is not'),
        ({"free": ["a/b c"]}, 'free[0]: "a/b c" is not'),
        ({"free": ["ollama"]}, 'free[0]: "ollama" is not'),
        ({"free": ["a/" + "b" * 200]}, "free[0]:"),
        ({"plan": ["a/b"]}, "plan must be an object from a plan's name to a list of models"),
        ({"plan": {"max": "a/b"}}, 'plan: "max" must be a list'),
        ({"plan": {"max": ["a"]}}, 'plan["max"][0]: "a" is not'),
        ({"plan": {" ": []}}, "is no name of a plan"),
        ({"fre": []}, '"fre" is unknown here; known are version, models, free, plan'),
        ({"Models": {}}, '"Models" is unknown here'),
        ({"version": 2}, "version was written by a newer pidispatch"),
        ({"version": "1"}, "version must be an integer"),
    ],
)
def test_lists_that_are_not_understood_are_refused(more, told):
    content = json.dumps({"version": 1, **more}).encode()

    with pytest.raises(ConfigurationRefused) as error:
        parse_prices(content, "prices.json")

    assert any(told in problem for problem in error.value.problems)


@pytest.mark.parametrize(
    ("models", "more", "told"),
    [
        ({"a/b": PLAIN, "A/B": PLAIN}, {}, 'models["A/B"]: "A/B": models["a/b"] on line 1 speaks of it as well'),
        ({"a/b": PLAIN}, {"free": ["a/B"]}, 'free[0]: "a/B": models["a/b"] on line 1 speaks of it as well'),
        ({"a/b": {"like": "c/d"}}, {"plan": {"p": ["a/b"]}}, 'plan["p"][0]: "a/b": models["a/b"]'),
        ({"a/b": PLAIN}, {"free": ["a/*"]}, 'models["a/b"]: "a/b": free[0] on line 1 speaks of it as well'),
        ({}, {"free": ["a/b", "a/b"]}, "free[1]:"),
        ({}, {"free": ["a/*"], "plan": {"p": ["a/c"]}}, 'plan["p"][0]: "a/c": free[0]'),
        ({}, {"plan": {"p": ["a/c"], "q": ["a/c"]}}, 'plan["q"][0]: "a/c": plan["p"][0]'),
        ({"a/b": {"like": "c/d"}, "c/d": {"like": "e/f"}}, {}, 'models["a/b"]: like names "c/d", which has no figures'),
        ({"a/b": {"like": "c/d"}}, {"free": ["c/d"]}, 'models["a/b"]: like names "c/d", which has no figures'),
        ({"a/b": {"like": "c/d"}}, {"free": ["c/*"]}, 'models["a/b"]: like names "c/d", which has no figures'),
    ],
)  # fmt: skip
def test_a_model_is_spoken_of_once(models, more, told):
    assert any(told in problem for problem in problems(models, **more))


def test_a_key_twice_is_refused_with_its_line():
    with pytest.raises(ConfigurationRefused, match=r"f:2: .*there twice"):
        parse_prices(b'{"version": 1, "models": {"a/b": {},\n"a/b": {}}}', "f")


def test_all_problems_are_told_at_once():
    assert len(problems({"a/b": {"input": 1}, "c": PLAIN}, free=["d"], plan={"p": [1]})) == 4


words = st.sampled_from(
    ["a/b", "A/b", "a/*", "c/d", "*", "", "x", "input", "output", "like", "tiers", "above"]
)
keys = words | st.sampled_from(["version", "models", "free", "plan", "cacheRead", "request"])
values = st.recursive(
    st.none() | st.booleans() | words | st.sampled_from([0, 1, 2.5, -1, 1e300, 1e-9]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(keys, values, max_size=4), st.booleans())
def test_no_file_makes_the_parser_do_anything_but_parse_or_refuse(document, versioned):
    content = json.dumps({**document, **({"version": 1} if versioned else {})}).encode()

    with contextlib.suppress(ConfigurationRefused):
        file = parse_prices(content, "f")
        for name in ("a/b", "A/b", "c/d", "x"):
            found = file.find(*name.partition("/")[::2])
            assert found is None or isinstance(found, Price | Like)
