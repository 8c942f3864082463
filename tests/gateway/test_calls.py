"""A model call through the door, with a provider behind it."""

import http.client
import json
import resource
import socket
import threading

import pytest

from tests.gateway.parts import KEY, UnixClient, chat, raw_client, read_until, responses

PATHS = {
    "scripted": "/v1/chat/completions",
    "openai": "/v1/responses",
    "anthropic": "/v1/messages?beta=true",
}
BODIES = {"scripted": chat, "openai": responses, "anthropic": chat}
TOOL_RESULTS = {
    "scripted": {"role": "tool", "tool_call_id": "c", "content": "x"},
    "openai": {"type": "function_call_output", "call_id": "c", "output": "x"},
    "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]},
}
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def upstreams(provider):
    return {"scripted": f"{provider.url}/v1", "openai": f"{provider.url}/v1", "anthropic": provider.url}


def raw_request(path="/v1/chat/completions", **more) -> bytes:
    body = json.dumps(chat(**more)).encode()
    return b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_call_is_passed_on_and_settled_with_what_the_provider_reported(make_house, scripted, name, stream):
    client = make_house(upstreams(scripted)).client(provider=name)

    status, answer = client.ask("POST", PATHS[name], BODIES[name](stream=stream))

    assert status == 200
    assert (b"look around" in answer) if stream else ("look around" in json.dumps(answer))
    [asked] = scripted.asked
    assert asked.path == PATHS[name]


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("stream", [True, False])
def test_the_ledger_adds_up_to_the_providers_own_numbers(make_house, scripted, name, stream):
    house = make_house(upstreams(scripted))
    client = house.client(provider=name)
    messages = [{"role": "user", "content": "go"}]

    for step in range(4):
        body = BODIES[name](stream=stream, messages=messages)
        assert client.ask("POST", PATHS[name], body)[0] == 200
        house.ledger.settled(step + 1)
        messages.append({"role": "assistant", "content": "…"})
        messages.append(TOOL_RESULTS[name])

    ends = house.ledger.settled(4)
    assert [(end.tokens_in, end.tokens_out, end.cache_read) for end in ends] == [
        (asked.usage.tokens_in, asked.usage.tokens_out, asked.usage.cache_read) for asked in scripted.asked
    ]
    assert [end.stop_reason for end in ends] == ["tool_use", "tool_use", "tool_use", "stop"]
    assert all(end.measured and end.status == 200 for end in ends)
    assert {(call.model, call.provider, call.attempt) for call in house.ledger.calls} == {("happy", name, 1)}


def test_the_key_is_put_in_and_what_the_box_sent_as_one_is_dropped(make_house, scripted):
    house = make_house(upstreams(scripted))
    forged = {
        "authorization": "Bearer box", "x-api-key": "box", "cookie": "a=b", "anthropic-version": "2023-06-01",
        "openai-organization": "other", "connection": "keep-alive, x-private", "x-private": "1", "accept-encoding": "br",
    }  # fmt: skip

    house.client(1, "anthropic").ask("POST", PATHS["anthropic"], chat(), forged)
    house.client(2, "scripted").ask("POST", PATHS["scripted"], chat(), forged)

    first, second = (asked.headers for asked in scripted.asked)
    assert first["x-api-key"] == KEY
    assert "authorization" not in first
    assert first["anthropic-version"] == "2023-06-01"
    assert second["authorization"] == f"Bearer {KEY}"
    assert "x-api-key" not in second
    for headers in (first, second):
        assert headers["accept-encoding"] == "identity"
        assert not {"cookie", "openai-organization", "x-private"} & set(headers)


def test_the_box_never_sees_the_key(make_house, scripted):
    house = make_house(upstreams(scripted))
    sock = raw_client(house.open())
    seen = b""

    for model in ("happy", "http401", "http500"):
        sock.sendall(raw_request(model=model))
        seen += read_until(sock, b"0\r\n\r\n" if model == "happy" else b'"}}')

    assert KEY.encode() not in seen
    assert all(asked.key == KEY for asked in scripted.asked)
    sock.close()


def test_the_first_piece_arrives_before_the_provider_has_sent_the_second(make_house, scripted):
    second, waited = threading.Event(), []
    # The head of a stream waits for the first output, which is its second piece.
    scripted.pace = lambda number: number < 2 or waited.append(second.wait(20))
    client = make_house(upstreams(scripted)).client()

    client.request("POST", PATHS["scripted"], json.dumps(chat()))
    response = client.getresponse()
    first = response.readline()
    second.set()

    assert first.startswith(b"data: ")
    assert b"[DONE]" in response.read()
    assert all(waited)
    client.close()


def test_the_row_is_written_before_the_provider_hears_of_the_call(make_house, scripted):
    house = make_house(upstreams(scripted))
    rows_seen = []
    choose = scripted.choose
    scripted.choose = lambda *args: (
        rows_seen.append([call.state for call in house.ledger.calls]) or choose(*args)
    )

    house.client().ask("POST", PATHS["scripted"], chat())

    assert rows_seen == [["held"]]


def test_a_streamed_chat_is_asked_for_its_usage_and_nothing_else_changes(make_house, scripted):
    house = make_house(upstreams(scripted))
    client = house.client()

    client.ask("POST", PATHS["scripted"], chat(temperature=0.5))
    client.ask("POST", PATHS["scripted"], chat(stream=False))

    first, second = (asked.body for asked in scripted.asked)
    assert first.pop("stream_options") == {"include_usage": True}
    assert first == chat(temperature=0.5)
    assert second == chat(stream=False)


@pytest.mark.parametrize("status", [401, 402, 500])
def test_a_providers_refusal_reaches_the_box_and_costs_nothing(make_house, scripted, status):
    house = make_house(upstreams(scripted))

    got, answer = house.client().ask("POST", PATHS["scripted"], chat(f"http{status}"))

    assert got == status
    assert answer["error"]["message"]
    [end] = house.ledger.settled()
    assert (end.status, end.stop_reason, end.tokens_in, end.tokens_out) == (status, "error", 0, 0)


def test_a_run_that_may_not_call_gets_402_and_nothing_goes_upstream(make_house, scripted):
    house = make_house(upstreams(scripted))
    client = house.client()
    house.tickets.runs[7].live = False

    status, answer = client.ask("POST", PATHS["scripted"], chat())

    assert status == 402
    assert answer["error"]["type"] == "budget_exceeded"
    assert answer["error"]["message"].startswith("pidispatch: ")
    assert scripted.asked == []


def test_without_the_database_a_call_is_held_and_goes_on_when_it_is_back(make_house, scripted):
    house = make_house(upstreams(scripted))
    client = house.client()
    house.switch.away = True
    threading.Timer(0.4, lambda: setattr(house.switch, "away", False)).start()

    status, _ = client.ask("POST", PATHS["scripted"], chat())

    assert status == 200
    assert len(scripted.asked) == 1


def test_without_the_database_for_too_long_a_call_is_answered_503_unsent(make_house, scripted):
    house = make_house(upstreams(scripted), hold_seconds=0.1)
    client = house.client()
    house.switch.away = True

    status, _ = client.ask("POST", PATHS["scripted"], chat())

    assert status == 503
    assert scripted.asked == []


def test_a_settlement_waits_for_the_database(make_house, scripted):
    house = make_house(upstreams(scripted))
    client = house.client()
    choose = scripted.choose
    scripted.choose = lambda *args: setattr(house.switch, "away", True) or choose(*args)

    assert client.ask("POST", PATHS["scripted"], chat())[0] == 200
    assert [call.state for call in house.ledger.calls] == ["held"]
    house.switch.away = False

    [end] = house.ledger.settled()
    assert end.measured


def test_a_provider_that_is_not_there_is_a_502_and_a_settled_call(make_house):
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    house = make_house({"scripted": url})

    status, answer = house.client().ask("POST", PATHS["scripted"], chat())

    assert status == 502
    assert answer["error"]["type"] == "api_error"
    [end] = house.ledger.settled()
    assert (end.status, end.stop_reason, end.tokens_in, end.measured) == (0, "error", 0, True)


def test_a_provider_that_breaks_off_breaks_the_boxs_answer_off_too(make_house, manual):
    house = make_house({"scripted": manual.url})
    client = house.client()
    client.request("POST", PATHS["scripted"], json.dumps(chat()))
    manual.read_request()
    manual.send(CHUNKED)
    manual.chunk(b'data: {"choices":[{"delta":{"content":"abcdef"}}]}\n\n')
    response = client.getresponse()
    response.readline()

    manual.close()

    with pytest.raises((http.client.HTTPException, ConnectionError)):
        response.read()
    [end] = house.ledger.settled()
    assert (end.status, end.stop_reason, end.measured) == (200, "error", False)
    assert (end.tokens_in + end.tokens_out, end.tokens_out) == (house.ledger.calls[0].held_tokens, 32_768)


def test_a_client_that_leaves_ends_the_call_upstream_and_it_is_settled_as_aborted(make_house, manual):
    house = make_house({"scripted": manual.url})
    sock = raw_client(house.open())
    sock.sendall(raw_request())
    manual.read_request()
    manual.send(CHUNKED)
    manual.chunk(b'data: {"choices":[{"delta":{"content":"abcdef"}}]}\n\n')
    read_until(sock, b"abcdef")

    sock.close()

    assert manual.was_hung_up()
    [end] = house.ledger.settled()
    assert (end.status, end.stop_reason, end.measured) == (200, "aborted", False)
    assert end.tokens_out == 32_768  # what may have been thought, and not shown


def test_a_client_that_leaves_before_the_answer_began_ends_the_call_upstream_too(make_house, manual):
    house = make_house({"scripted": manual.url})
    sock = raw_client(house.open())
    sock.sendall(raw_request(stream=False))
    manual.read_request()

    sock.close()

    assert manual.was_hung_up()
    [end] = house.ledger.settled()
    assert (end.status, end.stop_reason, end.measured) == (0, "aborted", False)


def test_closing_a_door_cuts_its_streams_and_settles_them(make_house, manual):
    house = make_house({"scripted": manual.url})
    sock = raw_client(house.open())
    sock.sendall(raw_request())
    manual.read_request()
    manual.send(CHUNKED)
    manual.chunk(b'data: {"choices":[{"index":0,"delta":{"content":"so"}}]}\n\n')
    read_until(sock, b"so")

    house.doors.close(7)

    assert manual.was_hung_up()
    assert [call.state for call in house.ledger.calls] == ["assumed"]
    assert house.ledger.calls[0].end.stop_reason == "aborted"
    assert sock.recv(100) == b""
    sock.close()


def test_a_slow_reader_slows_its_provider_instead_of_filling_memory(make_house, manual):
    house = make_house({"scripted": manual.url})
    sock = raw_client(house.open())
    sock.sendall(raw_request())
    manual.read_request()
    manual.send(CHUNKED)
    manual.sock().settimeout(1.0)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(TimeoutError):
        manual.chunk(b":" * 64_000_000)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 150_000
    sock.close()


def test_one_connection_carries_many_calls(make_house, scripted):
    house = make_house(upstreams(scripted))
    client = house.client()

    statuses = [client.ask("POST", PATHS["scripted"], chat())[0] for _ in range(5)]

    assert statuses == [200] * 5
    assert len(house.ledger.settled(5)) == 5


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b'{"model":1}',
        b'{"model":"a","model":"b"}',
        b'{"Model":"b","model":"a"}',
        b'{"messages":[]}',
    ],
)
def test_a_body_that_names_no_one_model_is_refused_unsent(make_house, scripted, body):
    house = make_house(upstreams(scripted))

    status, answer = house.client().ask("POST", PATHS["scripted"], body)

    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert house.ledger.calls == []


@pytest.mark.parametrize(
    ("provider", "path"),
    [("scripted", "/v1/messages"), ("anthropic", "/v1/chat/completions"), ("nobody", "/v1/messages"),
     ("scripted", "/v1/responses"), ("openai", "/v1/chat/completions"), ("scripted", "/v1/models")],
)  # fmt: skip
def test_a_path_the_runs_provider_does_not_speak_is_not_found(make_house, scripted, provider, path):
    client = make_house(upstreams(scripted)).client(provider=provider)

    status, answer = client.ask("POST", path, chat())

    assert status == 404
    assert answer["error"]["type"] == "not_found"
    assert scripted.asked == []


def test_without_a_key_nothing_is_sent(make_house):
    house = make_house({"scripted": "https://provider.invalid/v1"}, keys={})

    status, _ = house.client().ask("POST", PATHS["scripted"], chat())

    assert status == 401
    assert house.ledger.calls == []


def test_calls_in_parallel_do_not_mix(make_house, scripted):
    house = make_house(upstreams(scripted))
    path = house.open()
    answers = {}

    def ask(model):
        client = UnixClient(path)
        answers[model] = client.ask("POST", PATHS["scripted"], chat(model))[1]
        client.close()

    models = [f"model-{number}" for number in range(12)]
    threads = [threading.Thread(target=ask, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert all(f'"model": "{model}"'.encode() in answers[model] for model in models)
    assert len(house.ledger.settled(12)) == 12


def test_a_broken_ledger_lets_no_call_through(make_house, scripted):
    house = make_house(upstreams(scripted))
    client = house.client()
    house.ledger.open_call = None

    with pytest.raises((http.client.HTTPException, ConnectionError)):
        client.ask("POST", PATHS["scripted"], chat())

    assert scripted.asked == []
