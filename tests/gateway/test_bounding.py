"""What a request may use at most: the body's bytes, what an earlier one was counted as, and what has no bound."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.providers.calls import CallEnd, CallOpened, ProviderFacts, Worst
from pidispatch.domain.providers.rates import CacheWrites, Price, Rates, Rating
from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES, WIRE_APIS
from pidispatch.gateway.calls.bounding import LARGEST_WINDOW, OVERHEAD, SLACK, USUAL_OUTPUT, RequestBounds
from pidispatch.gateway.calls.envelope import edited, read_envelope
from pidispatch.gateway.calls.prefixes import MOST_REQUESTS, MOST_RUNS
from pidispatch.gateway.wire.apis import BY_NAME
from tests.gateway.counting import counted, request_of

PRICE = Price(Rating.PRICED, ((0, Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)),), "test")
DATA = "data:image/png;base64," + "iVBORw0KGgo" * 20_000


def facts(api, name="openai", **more):
    return ProviderFacts(name=name, api=api, known_to_pi=True, credential=True, **more)


def bound_of(api, request, *, bounds=None, run=7, provider="openai", **more):
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return (bounds or RequestBounds()).of(run, facts(api, provider, **more), read_envelope(body, api), body)


def said(api, *texts, **more):
    return request_of(api, [{"role": "user", "content": text} for text in texts], **more)


@pytest.mark.parametrize("api", WIRE_APIS)
def test_the_input_is_bounded_by_the_bytes_of_the_body(api):
    request = said(api, "x" * 10_000)

    bound = bound_of(api, request)

    assert bound.problem is None
    assert bound.tokens_in == OVERHEAD + len(json.dumps(request)) - len("[]")


@pytest.mark.parametrize(
    ("api", "provider", "more", "expected"),
    [
        (ANTHROPIC, "anthropic", {"max_tokens": 5000}, (5000, 1024, 1, ("max_tokens",), True)),
        (ANTHROPIC, "anthropic", {"max_tokens": 5000, "thinking": {"type": "enabled", "budget_tokens": 3000}},
         (5000, 4024, 1, ("max_tokens",), True)),
        (ANTHROPIC, "anthropic", {"max_tokens": 5000, "thinking": {"type": "enabled", "budget_tokens": 90000}},
         (90000, 90000, 1, ("max_tokens",), True)),
        (ANTHROPIC, "anthropic", {}, (USUAL_OUTPUT, 1024, 1, ("max_tokens",), False)),
        (OPENAI, "openai", {"max_completion_tokens": 300, "n": 4}, (300, 300, 4, ("max_completion_tokens",), True)),
        (OPENAI, "openai", {"max_tokens": 300, "max_completion_tokens": 900, "best_of": 3, "n": 2},
         (900, 900, 3, ("max_completion_tokens", "max_tokens"), True)),
        (OPENAI, "openai", {}, (USUAL_OUTPUT, 1024, 1, ("max_completion_tokens",), False)),
        (OPENAI, "ollama", {}, (USUAL_OUTPUT, 1024, 1, ("max_tokens",), False)),
        (OPENAI, "ollama", {"max_completion_tokens": 10}, (10, 10, 1, ("max_completion_tokens", "max_tokens"), False)),
        (OPENAI, "openrouter", {"max_tokens": 9000, "reasoning": {"max_tokens": 4000}},
         (9000, 5024, 1, ("max_tokens",), True)),
        (RESPONSES, "openai", {"max_output_tokens": 16}, (16, 16, 1, ("max_output_tokens",), True)),
        (RESPONSES, "openai", {"max_output_tokens": None}, (USUAL_OUTPUT, 1024, 1, ("max_output_tokens",), False)),
    ],
)  # fmt: skip
def test_the_output_is_bounded_by_what_the_provider_surely_reads(api, provider, more, expected):
    output = bound_of(api, said(api, "x", **more), provider=provider).output

    assert (output.limit, output.least, output.choices, output.names, output.is_limited) == expected


def test_a_longest_answer_that_is_known_is_the_limit_where_none_is_named():
    assert bound_of(OPENAI, said(OPENAI, "x"), max_tokens=4_000).output.limit == 4_000


UNBOUNDED = [
    (ANTHROPIC, {"tools": [{"name": "a"}, {"type": "web_search_20250305", "name": "w"}]}, "web_search_20250305"),
    (ANTHROPIC, {"tools": [{"type": "code_execution_20250825", "name": "c"}]}, "code_execution"),
    (ANTHROPIC, {"mcp_servers": [{"url": "https://x"}]}, "mcp_servers"),
    (ANTHROPIC, {"container": "c1"}, "container"),
    (ANTHROPIC, {"speed": "fast"}, "speed"),
    (ANTHROPIC, {"service_tier": "priority"}, "service_tier"),
    (ANTHROPIC, {"max_tokens": -1}, "max_tokens"),
    (ANTHROPIC, {"max_tokens": 1e3}, "max_tokens"),
    (ANTHROPIC, {"max_tokens": True}, "max_tokens"),
    (ANTHROPIC, {"surprise": 1}, "surprise"),
    (ANTHROPIC, {"fallbacks": [{"model": "x", "y": 1}]}, "fallbacks"),
    (ANTHROPIC, {"fallbacks": "x"}, "fallbacks"),
    (OPENAI, {"web_search_options": {}}, "web_search_options"),
    (OPENAI, {"service_tier": "priority"}, "service_tier"),
    (OPENAI, {"modalities": ["text", "audio"]}, "modalities"),
    (OPENAI, {"prediction": {"type": "content", "content": "x"}}, "prediction"),
    (OPENAI, {"tools": [{"type": "browser_search"}]}, "browser_search"),
    (OPENAI, {"tools": {"a": 1}}, "tools"),
    (OPENAI, {"n": 1000}, "n"),
    (OPENAI, {"plugins": [{"id": "web"}]}, "plugins"),
    (OPENAI, {"n_predict": 100_000}, "n_predict"),
    (OPENAI, {"provider": {"order": ["dear"]}}, "provider"),
    (RESPONSES, {"tools": [{"type": "web_search"}]}, "web_search"),
    (RESPONSES, {"tools": [{"type": "file_search"}]}, "file_search"),
    (RESPONSES, {"tools": [{"type": "code_interpreter"}]}, "code_interpreter"),
    (RESPONSES, {"tools": [{"type": "image_generation"}]}, "image_generation"),
    (RESPONSES, {"tools": [{"type": "mcp", "server_url": "https://x"}]}, "mcp"),
    (RESPONSES, {"tools": [{"ty\u0070e": "mcp"}]}, "mcp"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "more", "named"), UNBOUNDED)
def test_what_makes_the_cost_unbounded_is_named(api, more, named):
    bound = bound_of(api, said(api, "x", **more))

    assert bound.problem is not None
    assert named in bound.problem
    worst = bound.worst(lambda _: PRICE)
    assert (worst.micros, worst.least_micros) == (None, None)
    assert worst.least_tokens >= LARGEST_WINDOW


CONTENTS = [
    (ANTHROPIC, {"type": "document", "source": {"type": "url", "url": "https://x/a.pdf"}}, "document"),
    (ANTHROPIC, {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A"}}, "document"),
    (ANTHROPIC, {"type": "image", "source": {"type": "file", "file_id": "f"}}, "image"),
    (ANTHROPIC, {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}, "image"),
    (OPENAI, {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "high"}}, "image_url"),
    (RESPONSES, {"type": "input_image", "image_url": "https://x/y.png"}, "input_image"),
    (ANTHROPIC, {"type": "container_upload", "file_id": "f"}, "container_upload"),
    (ANTHROPIC, {"type": "tool_result", "content": [{"type": "document", "source": {"type": "file"}}]}, "document"),
    (ANTHROPIC, {"type": "tool_result", "content": [{"type": "tool_result", "content": []}]}, "tool_result"),
    (ANTHROPIC, {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"type": "web_search_1"}}}, "web_search"),
    (OPENAI, {"type": "file", "file": {"file_id": "f"}}, "file"),
    (OPENAI, {"type": "input_audio", "input_audio": {}}, "input_audio"),
    (OPENAI, {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "image"),
    (OPENAI, {"type": "image_url", "image_url": {"url": ""}}, "image"),
    (RESPONSES, {"type": "input_file", "file_url": "https://x"}, "input_file"),
    (RESPONSES, {"type": "input_image", "file_id": "f"}, "input_image"),
]  # fmt: skip


@pytest.mark.parametrize(("api", "part", "named"), CONTENTS)
def test_content_that_is_only_referred_to_or_packed_is_named(api, part, named):
    problem = bound_of(api, request_of(api, [{"role": "user", "content": [part]}])).problem

    assert problem is not None
    assert named in problem


@pytest.mark.parametrize(
    "item",
    [{"type": "item_reference", "id": "i"}, {"type": "reasoning", "id": "r", "summary": []}, {"type": "compaction"},
     {"type": "function_call_output", "output": [{"type": "input_file"}]}, {"type": ["x"]}],
)  # fmt: skip
def test_items_that_the_provider_alone_knows_are_not_bounded(item):
    assert bound_of(RESPONSES, {"model": "m", "input": [item]}).problem is not None


IMAGES = [
    (ANTHROPIC, {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA[22:]}}),
    (ANTHROPIC, {"type": "tool_result", "tool_use_id": "t", "content": [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA[22:]}}]}),
    (OPENAI, {"type": "image_url", "image_url": {"url": DATA}}),
    (OPENAI, {"type": "image_url", "image_url": {"url": DATA, "detail": "high"}}),
    (RESPONSES, {"type": "input_image", "image_url": DATA}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "part"), IMAGES)
def test_an_image_counts_as_one_however_many_bytes_it_has(api, part):
    bound = bound_of(api, request_of(api, [{"role": "user", "content": [part]}]))

    assert bound.problem is None
    assert BY_NAME[api].image < bound.tokens_in < BY_NAME[api].image + OVERHEAD + 600


TEXT = "A" * 200_000
FORGED = [
    (ANTHROPIC, {"type": "text", "text": TEXT, "media_type": "image/png", "source": {"type": "base64"}}),
    (ANTHROPIC, {"type": "tool_use", "id": "t", "name": "n", "input": {"type": "image", "source": {
        "type": "base64", "media_type": "image/png", "data": TEXT}}}),
    (ANTHROPIC, {"type": "document", "source": {"type": "text", "media_type": "image/png", "data": TEXT}}),
    (OPENAI, {"type": "text", "text": "data:image/png;base64," + TEXT, "image_url": {"url": "data:image/png;base64,"}}),
    (RESPONSES, {"type": "input_text", "text": TEXT, "image_url": DATA}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "part"), FORGED)
def test_text_that_looks_like_an_image_counts_as_text_or_is_not_bounded(api, part):
    bound = bound_of(api, request_of(api, [{"role": "user", "content": [part]}]))

    assert bound.tokens_in > len(TEXT)
    assert bound.problem is None or bound.found.words.keys() & {"image_url", "media_type", "source"}


def test_a_content_that_can_be_read_in_two_ways_is_not_bounded():
    source = f'"type":"base64","media_type":"image/png","data":"{TEXT}"'
    for twice in (
        f'{{"type":"text","type":"image","source":{{{source}}}}}',
        f'{{"type":"image","source":{{"type":"text",{source}}}}}',
    ):
        body = f'{{"model":"m","messages":[{{"role":"user","content":[{twice}]}}]}}'.encode()
        assert bound_of(ANTHROPIC, body).problem is not None


WRITES = [
    (ANTHROPIC, '"cache_control":{"type":"ephemeral"}', CacheWrites.SHORT),
    (ANTHROPIC, '"cache_control":{"type":"ephemeral","ttl" : "1h"}', CacheWrites.LONG),
    (ANTHROPIC, '"cach\\u0065_control":{"type":"ephemeral"}', CacheWrites.LONG),
    (ANTHROPIC, '"system":"say \\"cache_control\\""', CacheWrites.NONE),
    (OPENAI, '"n":1', CacheWrites.SHORT),
]  # fmt: skip


@pytest.mark.parametrize(("api", "member", "writes"), WRITES)
def test_what_may_be_written_to_the_cache_is_seen_and_what_is_hidden_counts_as_dearest(api, member, writes):
    assert bound_of(api, f'{{"model":"m","messages":[],{member}}}'.encode()).writes is writes


def test_the_worst_case_is_priced_and_the_largest_output_that_fits_is_found():
    bound = bound_of(ANTHROPIC, said(ANTHROPIC, "x", max_tokens=10_000), provider="anthropic")
    worst = bound.worst(lambda _: PRICE)
    assert worst == Worst(
        bound.tokens_in * 3 + 150_000, bound.tokens_in * 3 + 15_360, bound.tokens_in + 10_000, bound.tokens_in + 1024
    )  # fmt: skip

    def granted(micros, tokens):
        return bound.granted(lambda _: PRICE, CallOpened(1, micros, tokens))

    assert granted(None, None) is None
    assert granted(worst.micros, None) == granted(None, worst.tokens) == 10_000
    assert granted(worst.least_micros, None) == granted(None, worst.least_tokens) == 1024
    assert granted(bound.tokens_in * 3 + 15 * 5000 + 14, worst.tokens) == 5000
    assert granted(worst.micros, bound.tokens_in + 3000) == 3000


def test_without_a_price_nothing_can_be_said_in_dollars():
    worst = bound_of(OPENAI, said(OPENAI, "x")).worst(lambda _: None)

    assert (worst.micros, worst.least_micros) == (None, None)
    assert worst.tokens > worst.least_tokens > 0


def test_models_that_answer_in_its_place_are_paid_for_too():
    request = said(ANTHROPIC, "x", max_tokens=2000, fallbacks=[{"model": "other"}])
    bound = bound_of(ANTHROPIC, request)

    worst = bound.worst({"m": PRICE, "other": PRICE}.get)

    assert bound.models == ("m", "other")
    assert worst.micros == 2 * (bound.tokens_in * 3 + 30_000)
    assert bound.worst({"m": PRICE}.get).micros is None


def test_the_limit_is_written_only_where_there_is_a_cap():
    request = said(OPENAI, "x", max_completion_tokens=50)
    body = json.dumps(request).encode()
    for provider, limit, expected in (
        ("openai", None, request),
        ("openai", 50, request),
        ("openai", 20, {**request, "max_completion_tokens": 20}),
        ("ollama", 50, {**request, "max_tokens": 50}),
        ("ollama", 20, {**request, "max_completion_tokens": 20, "max_tokens": 20}),
    ):
        bound = bound_of(OPENAI, request, provider=provider)
        changed = edited(body, bound.edits(body, read_envelope(body, OPENAI), limit))
        assert json.loads(changed) == expected


def ended(tokens, **more):
    return CallEnd(200, "stop", tokens_in=tokens, **more)


@pytest.mark.parametrize("api", WIRE_APIS)
def test_what_was_counted_before_bounds_what_goes_on_from_it(api):
    bounds = RequestBounds()
    first = said(api, "x" * 50_000, tools=[])
    bounds.learn(7, bound_of(api, first, bounds=bounds), ended(1_000, cache_read=200))
    longer = said(api, "x" * 50_000, "y" * 300, tools=[])

    same, more = bound_of(api, first, bounds=bounds), bound_of(api, longer, bounds=bounds)

    assert same.tokens_in == 1_200 + SLACK
    assert 1_500 < more.tokens_in < 1_500 + SLACK + 60
    assert bound_of(api, longer, bounds=bounds, run=8).tokens_in > 50_000
    bounds.forget(7)
    assert bound_of(api, longer, bounds=bounds).tokens_in > 50_000


@pytest.mark.parametrize(
    "end",
    [
        ended(5, measured=False),
        CallEnd(500, "error", tokens_in=5),
        CallEnd(0, "aborted", tokens_in=5, measured=False),
    ],
)
def test_only_what_a_provider_counted_is_learned(end):
    bounds = RequestBounds()
    first = said(OPENAI, "x" * 5_000)
    bounds.learn(7, bound_of(OPENAI, first, bounds=bounds), end)

    assert bound_of(OPENAI, first, bounds=bounds).tokens_in > 5_000


def test_pis_mark_for_the_cache_may_move_on_and_counts_as_bytes():
    mark = {"cache_control": {"type": "ephemeral"}}

    def asked(*texts):
        messages = [{"role": "user", "content": [{"type": "text", "text": text}]} for text in texts]
        messages[-1]["content"][-1].update(mark)
        body = json.dumps({"model": "m", "max_tokens": 100, "messages": messages}, separators=(",", ":"))
        return body.encode()

    bounds = RequestBounds()
    bounds.learn(7, bound_of(ANTHROPIC, asked("a" * 9_000), bounds=bounds), ended(2_000))

    assert bound_of(ANTHROPIC, asked("a" * 9_000, "b" * 100), bounds=bounds).tokens_in < 2_000 + SLACK + 200
    many = [{"type": "text", "text": "a" * 9_000, "x": [{"y": 1, **mark}] * 1000}]
    bounds.learn(
        9, bound_of(ANTHROPIC, {"model": "m", "messages": [{"role": "user", "content": many}]}), ended(5)
    )
    assert bound_of(ANTHROPIC, asked("a" * 9_000), bounds=bounds, run=9).tokens_in > 9_000


def test_memory_of_requests_and_of_runs_is_bounded():
    bounds = RequestBounds()
    for run in range(MOST_RUNS + 50):
        bounds.learn(run, bound_of(OPENAI, said(OPENAI, "x"), bounds=bounds, run=run), ended(1))
    for number in range(MOST_REQUESTS + 50):
        bounds.learn(
            1070, bound_of(OPENAI, said(OPENAI, "x", str(number)), bounds=bounds, run=1070), ended(1)
        )

    runs = bounds._prefixes._runs
    assert len(runs) == MOST_RUNS
    assert len(runs[1070]) == MOST_REQUESTS


TEXTS = st.text(max_size=40)
MESSAGES = st.lists(TEXTS, min_size=1, max_size=6)
EXTRAS = st.fixed_dictionaries(
    {},
    optional={
        "tools": st.lists(st.fixed_dictionaries({"name": TEXTS, "type": st.just("custom")}), max_size=2),
        "temperature": st.floats(0, 1),
        "service_tier": st.sampled_from(["auto", "default"]),
        "metadata": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "tool_choice": st.sampled_from(["auto", "none"]),
    },
)


@settings(max_examples=60)
@given(st.lists(st.tuples(MESSAGES, EXTRAS), min_size=1, max_size=5), st.sampled_from(WIRE_APIS), st.integers(0, 2**32), st.booleans())  # fmt: skip
def test_no_request_is_counted_higher_than_its_bound(requests, api, seed, ascii_only):
    """Whatever was asked before, and whatever tokens the provider makes of the text: at least a byte each."""
    bounds, dice = RequestBounds(), random.Random(seed)
    history: list[str] = []
    for texts, extras in requests:
        history = [*history[: dice.randint(0, len(history))], *texts]
        body = json.dumps(said(api, *history, **extras), ensure_ascii=ascii_only).encode()
        bound = bounds.of(1, facts(api), read_envelope(body, api), body)
        count = counted(api, json.loads(body), seed)

        assert count <= bound.tokens_in
        bounds.learn(1, bound, ended(count))


def overruled(api):
    """Pairs of requests: in the first something later leaves out what the second, with the same beginning, has."""
    long = "z" * 30_000
    name = BY_NAME[api].conversation
    many, few = json.dumps([{"role": "user", "content": long}]), '[{"role":"user","content":"x"}]'
    return [
        (f'{{"model":"m","{name}":[{{"role":"user","content":"{long}","content":"x"}}]}}',
         f'{{"model":"m","{name}":[{{"role":"user","content":"{long}"}}]}}'),
        (f'{{"model":"m","{name}":{many},"tool_choice":"none"}}', f'{{"model":"m","{name}":{many}}}'),
        (f'{{"model":"m","{name}":{many},"truncation":"auto"}}', f'{{"model":"m","{name}":{many}}}'),
        (f'{{"model":"m","{name}":{few}}}', f'{{"model":"m","{name}":{few[:-1]},{many[1:]}}}'),
    ]  # fmt: skip


@pytest.mark.parametrize("api", WIRE_APIS)
@pytest.mark.parametrize("which", range(4))
def test_what_the_earlier_request_left_out_is_not_taken_as_counted(api, which):
    first, second = (text.encode() for text in overruled(api)[which])
    bounds = RequestBounds()
    earlier = bound_of(api, first, bounds=bounds)
    bounds.learn(7, earlier, ended(5))

    assert bound_of(api, second, bounds=bounds).tokens_in > 30_000


def test_a_conversation_that_is_cut_to_fit_says_nothing_of_the_next():
    bounds = RequestBounds()
    request = said(RESPONSES, "z" * 30_000, truncation="auto")
    bounds.learn(7, bound_of(RESPONSES, request, bounds=bounds), ended(5))

    assert bound_of(RESPONSES, request, bounds=bounds).tokens_in > 30_000


@settings(max_examples=200)
@given(st.text(alphabet='{}[]:,"\\ typeimagesourcdataxz1', max_size=60), st.sampled_from(WIRE_APIS))
def test_no_text_that_looks_like_json_makes_it_raise(text, api):
    name = BY_NAME[api].conversation
    for inner in (
        f'"{name}":[{text}]',
        f'"tools":[{text}]',
        f'"{name}":[{{"content":[{text}]}}]',
        f'"thinking":{text}',
    ):
        body = f'{{"model":"m",{inner}}}'.encode()
        try:
            envelope = read_envelope(body, api)
        except ValueError:
            continue
        RequestBounds().of(1, facts(api), envelope, body)
