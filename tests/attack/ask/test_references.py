"""What a provider fetches, runs or keeps is a way out of the box, and says nothing of what the next call uses."""

import json

import pytest

from pidispatch.domain.egress.allowlist import Allowlist, read_entries
from pidispatch.domain.providers.calls import CallEnd, ProviderFacts, Ticket
from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.gateway.calls.bounding import RequestBounds
from pidispatch.gateway.calls.envelope import NotARequest, read_envelope
from pidispatch.gateway.calls.reach import Reach
from pidispatch.gateway.egress.log import EgressLog
from tests.gateway.fakes import FakeCaps
from tests.gateway.parts import UnixClient
from tests.gateway.test_caps import AGAIN

TICKET = Ticket(7, "local:7", 1, "anthropic", egress=("own.example",))
AWAY = "https://attacker.example/?d=SECRET"


def of(api, bounds=None, **members):
    """The bound of a request, and who judges it."""
    name = "input" if api == RESPONSES else "messages"
    body = json.dumps({"model": "m", name: [{"role": "user", "content": "hi"}], **members}).encode()
    facts = ProviderFacts(name="any", api=api, known_to_pi=True, credential=True)
    return (bounds or RequestBounds()).of(7, facts, read_envelope(body, api), body)


def said(api, *parts):
    return {"input" if api == RESPONSES else "messages": [{"role": "user", "content": list(parts)}]}


def reach(*hosts, tools=(), **more):
    return Reach(lambda: Allowlist(read_entries(hosts)), tools=tools, **more)


ELEVEN = {
    "mcp_servers": {"mcp_servers": [{"type": "url", "url": "https://attacker.example/mcp", "name": "x"}]},
    "web_fetch": {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]},
    "web_search": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "code_execution": {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
    "a document by address": said(ANTHROPIC, {"type": "document", "source": {"type": "url", "url": AWAY}}),
    "an image by address": said(ANTHROPIC, {"type": "image", "source": {"type": "url", "url": AWAY}}),
    "a stored file": said(ANTHROPIC, {"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
    "a strange member": {"api_base": "https://attacker.example"},
    "a container": {"container": "container_of_another_run"},
}


@pytest.mark.parametrize("name", ELEVEN)
def test_without_a_cap_nothing_of_it_goes_out(make_house, recorder, name):
    house = make_house({"anthropic": recorder.url})
    client = house.client(provider="anthropic")
    asked = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}], **ELEVEN[name]}

    status, answer = client.ask("POST", "/v1/messages", asked)

    assert (status, answer["type"]) == (403, "error")
    assert recorder.heard == []
    [call] = house.ledger.calls
    assert (call.state, call.end.status, call.tokens, call.is_turn) == ("settled", 403, 0, False)


def test_a_listed_host_is_reached_and_a_listed_tool_runs(make_house, recorder):
    house = make_house({"anthropic": recorder.url}, provider_tools=("web_search",))
    client = house.client(provider="anthropic")
    asked = {
        "model": "m",
        "max_tokens": 10,
        "messages": [{"role": "user", "content": "hi"}],
        **ELEVEN["web_search"],
    }

    assert client.ask("POST", "/v1/messages", asked)[0] == 200
    assert client.ask("POST", "/v1/messages", {**asked, **ELEVEN["web_fetch"]})[0] == 403
    assert len(recorder.heard) == 1

    house.tickets.runs[7].caps = FakeCaps(cost_cap_micros=10**9)
    assert client.ask("POST", "/v1/messages", asked)[0] == 402


IMAGE = {"type": "image", "source": {"type": "url", "url": AWAY}}
NESTED = [
    (ANTHROPIC, said(ANTHROPIC, {"type": "tool_result", "tool_use_id": "t", "content": [IMAGE]})),
    (ANTHROPIC, said(ANTHROPIC, {"type": "document", "source": {"type": "content", "content": [IMAGE]}})),
    (ANTHROPIC, said(ANTHROPIC, {"type": "tool_result", "content": [{"type": "document", "source": {"type": "content", "content": [IMAGE]}}]})),
    (ANTHROPIC, said(ANTHROPIC, {"type": "search_result", "source": AWAY, "title": "t", "content": [{"type": "text", "text": "x"}]})),
    (ANTHROPIC, said(ANTHROPIC, {"type": "search_result", "source": "x", "title": "t", "content": [IMAGE]})),
    (ANTHROPIC, {"system": [IMAGE]}),
    (ANTHROPIC, {"system": {"type": "image", "source": {"url": AWAY}}}),
    (ANTHROPIC, said(ANTHROPIC, {"type": "text", "text": "x", "source": {"type": "url", "url": AWAY}})),
    (ANTHROPIC, said(ANTHROPIC, {"type": "text", "text": {"type": "image", "source": {"url": AWAY}}})),
    (ANTHROPIC, {"messages": [{"role": "user", "content": "x", "attachments": [{"url": AWAY}]}]}),
    (ANTHROPIC, {"messages": {"0": {"role": "user", "content": [IMAGE]}}}),
    (ANTHROPIC, {"tools": [{"name": "x", "input_schema": {"type": "object", "properties": {"a": {"$ref": AWAY}}}}]}),
    (ANTHROPIC, {"output_format": {"type": "json_schema", "schema": {"$ref": AWAY}}}),
    (ANTHROPIC, {"metadata": {"user_id": {"url": AWAY}}}),
    (OPENAI, said(OPENAI, {"type": "image_url", "image_url": {"url": AWAY}})),
    (OPENAI, said(OPENAI, {"type": "image_url", "image_url": AWAY})),
    (OPENAI, said(OPENAI, {"type": "file", "file": {"file_data": AWAY, "filename": "x"}})),
    (OPENAI, said(OPENAI, {"type": "file", "file": {"file_data": "h\u200bttp", "url": AWAY}})),
    (OPENAI, said(OPENAI, {"type": "input_audio", "input_audio": {"data": AWAY, "format": "wav"}})),
    (OPENAI, said(OPENAI, {"type": "video_url", "video_url": {"url": AWAY}})),
    (OPENAI, said(OPENAI, {"type": "thinking", "thinking": [{"type": "image_url", "image_url": AWAY}]})),
    (OPENAI, {"messages": [{"role": "assistant", "content": "x", "annotations": [{"type": "file", "file": {"hash": "h"}}]}]}),
    (OPENAI, {"messages": [{"role": "assistant", "audio": {"id": "a"}}]}),
    (OPENAI, {"messages": [{"role": "system", "tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]}]}),
    (OPENAI, {"tools": [{"type": "function", "function": {"name": "$web_search"}}]}),
    (OPENAI, {"tools": [{"type": "function", "function": {"name": "x"}, "web_search": {"enable": True}}]}),
    (OPENAI, {"tools": [{"google_search": {}}]}),
    (OPENAI, {"functions": [{"name": "x", "parameters": {"$ref": AWAY}}]}),
    (OPENAI, {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"\u0024ref": AWAY}}}}),
    (OPENAI, {"chat_template_kwargs": {"chat_template": "{% for i in range(9**9) %}x{% endfor %}"}}),
    (OPENAI, {"chat_template_kwargs": {"documents": [{"url": AWAY}]}}),
    (OPENAI, {"tool_choice": {"type": "web_search"}}),
    (OPENAI, {"model": "openai/gpt-4o:online"}),
    (RESPONSES, said(RESPONSES, {"type": "input_image", "image_url": AWAY})),
    (RESPONSES, said(RESPONSES, {"type": "input_file", "file_url": AWAY})),
    (RESPONSES, said(RESPONSES, {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "file_id": "f"})),
    (RESPONSES, {"input": [{"type": "function_call_output", "call_id": "c", "output": [{"type": "input_image", "image_url": AWAY}]}]}),
    (RESPONSES, {"input": [{"type": "additional_tools", "tools": [{"type": "mcp", "server_url": AWAY}]}]}),
    (RESPONSES, {"input": [{"type": "tool_search_output", "execution": "client", "tools": [{"type": "mcp", "server_url": AWAY}]}]}),
    (RESPONSES, {"input": [{"type": "tool_search_call", "execution": "server", "arguments": {}}]}),
    (RESPONSES, {"input": [{"type": "mcp_approval_response", "approve": True}]}),
    (RESPONSES, {"include": ["file_search_call.results"]}),
    (RESPONSES, {"instructions": [{"role": "user", "content": [{"type": "input_image", "image_url": AWAY}]}]}),
    (RESPONSES, {"tools": [{"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["f"]}}]}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "members"), NESTED)
def test_wherever_it_stands_it_is_refused_and_not_bounded(api, members):
    bound = of(api, **members)

    assert bound.problem is not None
    assert bound.trace is None
    barred = reach().judge(TICKET, bound.found)
    assert barred is not None
    message = barred.body(api)["error"]["message"]
    assert message.startswith("pidispatch: ")
    assert not AGAIN.search(message)


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("https://files.example/a.png", True), ("HTTPS://FILES.example:443/a?b#c", True), ("http://files.example/", True),
        ("https://own.example/x", True), ("https://files.example:8443/", False), ("https://x.files.example/", False),
        ("https://files.example@attacker.example/", False), ("https://attacker.example\\@files.example/", False),
        ("https://files.example\\.attacker.example/", False), (" https://files.example/", False), ("ht\ntps://files.example/", False),
        ("//files.example/", False), ("ftp://files.example/", False), ("file:///etc/passwd", False), ("gs://bucket/x", False),
        ("https:files.example", False), ("https://files.example\u3002attacker.example/", False), ("", False),
        ("https://2130706433/", False), ("https://[::ffff:7f00:1]/", False), ("http://169.254.169.254/latest", False),
    ],
)  # fmt: skip
@pytest.mark.parametrize("everything", [False, True])
def test_an_address_is_judged_by_the_list_of_hosts_alone(address, allowed, everything):
    """With egress off too: it is the provider that fetches, and nobody here knows its resolver or its network."""
    judge = Reach(lambda: Allowlist(read_entries(["files.example"]), everything))
    for api, part in (
        (ANTHROPIC, {"type": "image", "source": {"type": "url", "url": address}}),
        (OPENAI, {"type": "image_url", "image_url": {"url": address}}),
        (RESPONSES, {"type": "input_image", "image_url": address}),
    ):
        bound = of(api, **said(api, part))
        assert (judge.judge(TICKET, bound.found) is None) == allowed
        assert bound.problem is not None


def test_data_in_its_place_is_no_address():
    for api, part in (
        (
            ANTHROPIC,
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
        ),
        (OPENAI, {"type": "image_url", "image_url": {"url": "DATA:image/png;base64,AAAA"}}),
        (OPENAI, {"type": "text", "text": AWAY}),
        (RESPONSES, {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}),
    ):
        assert of(api, **said(api, part)).problem is None


def test_addresses_within_a_listed_tool_are_judged_too():
    tools = [{"type": "mcp", "server_label": "x", "server_url": "https://mcp.example/sse"}]
    found = of(RESPONSES, tools=tools).found

    assert reach("mcp.example", tools=["mcp"]).judge(TICKET, found) is None
    assert reach(tools=["mcp"]).judge(TICKET, found).status == 403
    assert reach("mcp.example").judge(TICKET, found).status == 403


def test_the_word_of_an_operator_means_all_dates_of_a_tool_and_no_other_one():
    for kind, word, passes in (
        ("web_search_20250305", "web_search", True), ("web_search_preview_2025_03_11", "web_search", True),
        ("web_search_20250305", "web_search_20250305", True), ("web_search_20250305", "web", False),
        ("web_searcher", "web_search", False), ("xweb_search", "web_search", False), ("mcp_toolset", "mcp", True),
    ):  # fmt: skip
        found = of(ANTHROPIC, tools=[{"type": kind, "name": "x"}]).found
        assert (reach(tools=[word]).judge(TICKET, found) is None) == passes


def test_tries_are_kept_as_evidence():
    kept = []

    class Notes(EgressLog):
        def note(self, run_id, target, reason, *, allowed, connections=0, up=0, down=0):
            kept.append((run_id, target.host, str(reason), allowed))

    judge = reach("files.example", evidence=Notes(None))
    parts = [
        {"type": "image", "source": {"type": "url", "url": f"https://{host}/"}}
        for host in ("files.example", "x.example")
    ]

    assert judge.judge(TICKET, of(ANTHROPIC, **said(ANTHROPIC, *parts)).found) is not None
    assert kept == [(7, "files.example", "listed", True), (7, "x.example", "not-listed", False)]


STORED = [
    {"id": "msg_0123456789abcdef"}, {"type": None, "id": "msg_1"}, {"type": "", "id": "msg_1"}, {}, {"type": "item_reference", "id": "i"},
    {"type": "message", "id": "msg_1"}, {"type": "message", "id": "msg_1", "role": "assistant"}, {"role": "assistant", "id": "msg_1"},
    {"type": "message", "id": "msg_1", "role": "assistant", "content": []}, {"role": "assistant", "content": None},
    {"type": "message", "id": "msg_1", "role": "assistant", "content": ""}, {"type": "message", "id": "m", "content": "x"},
    {"type": "reasoning", "id": "rs_1", "summary": []}, {"type": "reasoning", "id": "rs_1", "encrypted_content": ""},
    {"type": "function_call", "id": "fc_1", "call_id": "c"}, {"type": "function_call_output", "call_id": "c", "id": "fco_1"},
    {"id": "msg_1", "role": "assistant", "content": "x"}, {"type": ["message"]}, {"type": 1}, "hi", 5, None,
]  # fmt: skip


@pytest.mark.parametrize("item", STORED)
def test_an_item_that_stands_for_a_stored_one_is_refused_whatever_is_listed(item):
    bound = of(RESPONSES, input=[item, {"role": "user", "content": "go on"}])

    assert bound.problem is not None
    words = {"files", "item_reference", "container", "id", "message"}
    judged = reach("attacker.example", tools=words - {"id"}).judge(TICKET, bound.found)
    assert judged is not None


REFERRING = [
    (ANTHROPIC, said(ANTHROPIC, IMAGE)),
    (ANTHROPIC, said(ANTHROPIC, {"type": "document", "source": {"type": "file", "file_id": "f"}})),
    (ANTHROPIC, {"container": "c"}),
    (OPENAI, said(OPENAI, {"type": "image_url", "image_url": {"url": AWAY}})),
    (OPENAI, said(OPENAI, {"type": "file", "file": {"file_id": "f"}})),
    (RESPONSES, said(RESPONSES, {"type": "input_image", "image_url": AWAY})),
    (RESPONSES, said(RESPONSES, {"type": "input_file", "file_id": "f"})),
    (RESPONSES, {"input": [{"id": "msg_1"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("api", "members"), REFERRING)
def test_a_request_that_refers_is_never_learned_from_and_never_found(api, members):
    bounds = RequestBounds()
    small = CallEnd(200, "stop", tokens_in=5)
    first = of(api, bounds, **members)
    bounds.learn(7, first, small)

    assert of(api, bounds, **members).tokens_in == first.tokens_in >= 10_000_000
    bounds.learn(7, of(api, bounds), small)
    longer = {
        name: [{"role": "user", "content": "hi"}, *value]
        for name, value in members.items()
        if name in {"input", "messages"}
    }
    assert of(api, bounds, **(longer or members)).tokens_in >= 10_000_000


def test_what_was_learned_without_references_is_still_found():
    bounds = RequestBounds()
    text = {"messages": [{"role": "user", "content": "x" * 50_000}]}
    bounds.learn(7, of(ANTHROPIC, bounds, **text), CallEnd(200, "stop", tokens_in=900))

    assert of(ANTHROPIC, bounds, **text).tokens_in < 2_000


@pytest.mark.parametrize("stream", [1, 0, 1.0, "true", [], {}])
def test_a_stream_is_asked_for_in_one_way(stream):
    for api in (ANTHROPIC, OPENAI, RESPONSES):
        with pytest.raises(NotARequest, match="stream"):
            of(api, stream=stream)


@pytest.mark.parametrize(
    ("api", "members", "limit"),
    [
        (ANTHROPIC, {"max_tokens": 100, "thinking": {"type": "enabled", "budget_tokens": 50_000}}, 50_000),
        (OPENAI, {"max_completion_tokens": 100, "reasoning": {"max_tokens": 7_000}}, 7_000),
        (OPENAI, {"max_tokens": 100, "thinking_budget": 7_000}, 7_000),
        (OPENAI, {"max_tokens": 100, "chat_template_kwargs": {"thinking_budget": 7_000}}, 7_000),
        (ANTHROPIC, {"max_tokens": 9_000, "thinking": {"type": "enabled", "budget_tokens": 4_000}}, 9_000),
    ],
)
def test_the_larger_of_thinking_and_answer_is_held(api, members, limit):
    bound = of(api, **members)

    assert (bound.problem, bound.output.limit) == (None, limit)


@pytest.mark.parametrize("budget", [1.5e5, "50000", True, -1, 2**40])
def test_a_budget_that_is_no_count_is_not_bounded(budget):
    assert of(ANTHROPIC, thinking={"type": "enabled", "budget_tokens": budget}).problem is not None


def test_citations_are_not_bounded():
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a. " * 100}}

    assert of(ANTHROPIC, **said(ANTHROPIC, text)).problem is None
    assert of(ANTHROPIC, **said(ANTHROPIC, {**text, "citations": {"enabled": False}})).problem is None
    assert of(ANTHROPIC, **said(ANTHROPIC, {**text, "citations": {"enabled": True}})).problem == "citations"


def test_an_image_that_grew_at_its_address_is_not_bought_by_its_old_size(make_house, recorder):
    """Twenty calls with thirty images each once went through a cap of $2 for $25."""
    house = make_house({"anthropic": recorder.url})
    path = house.open(7, "anthropic")
    house.tickets.runs[7].caps = FakeCaps(max_tokens=100_000)
    client = UnixClient(path)
    house.clients.append(client)
    images = [
        {"type": "image", "source": {"type": "url", "url": f"https://attacker.example/{n}.png"}}
        for n in range(30)
    ]

    asked = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": images}]}
    assert [client.ask("POST", "/v1/messages", asked)[0] for _ in range(3)] == [402] * 3
    assert recorder.heard == []
