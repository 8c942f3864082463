"""Answers of providers as reports and attacks show them, through a door: what each counts, and what the box gets."""

import gzip
import json
import zlib

import pytest

from pidispatch.domain.providers.rates import CostClass, Price, Rates, Rating
from tests.gateway.fakes import FakeCaps
from tests.gateway.parts import ManualUpstream, chat, raw_client, responses

RATES = Rates(1_000_000, 2_000_000, 100_000, 1_250_000, 2_000_000)
PRICE = Price(Rating.PRICED, ((0, RATES),), "test 1", window=400_000)
TEXT = "some words that a model wrote " * 40
OK = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
CHAT = {"prompt_tokens": 900, "completion_tokens": 300, "total_tokens": 1_200}
HOLD = "hold"


class OnePrice:
    def find(self, provider, model):
        return PRICE


def whole(body, line="HTTP/1.1 200 OK", more=""):
    data = body if isinstance(body, bytes) else body.encode()
    head = f"{line}\r\ncontent-type: application/json\r\n{more}content-length: {len(data)}\r\n\r\n"
    return head.encode() + data


def stream(*events, more="", ends=True):
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{more}transfer-encoding: chunked\r\n\r\n"
    parts = [head.encode()]
    for event in events:
        data = event if isinstance(event, bytes) else b"data: " + (event if isinstance(event, str) else json.dumps(event)).encode() + b"\n\n"  # fmt: skip
        parts.append(b"%x\r\n%b\r\n" % (len(data), data))
    return b"".join([*parts, b"0\r\n\r\n" if ends else b""])


def response(used, **more):
    return json.dumps({"object": "response", "status": "completed", "output": [], "usage": used, **more})


def completed(used):
    return {"type": "response.completed", "response": {"status": "completed", "output": [], "usage": used}}


def said(delta, finish=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more.pop("choice", {})}
    return {"choices": [choice], **more}


def message(used, finish, after=()):
    return [
        {"type": "message_start", "message": {"usage": used}},
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": TEXT}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": finish},
        *after,
    ]


ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
NOTHING = {"input_tokens": 0, "output_tokens": 0}
PACKED = response({"input_tokens": 900, "output_tokens": 9}).encode()
BOMB = zlib.compress(b"[" * (40 * 1024 * 1024), 9)

# name: (provider, the answer, (tokens in, out, cached) or HOLD, class); whether the connection then ends
CASES = {
    "negative usage": ("openai", whole(response({"input_tokens": -5, "output_tokens": -9})), HOLD),
    "usage as texts": ("openai", whole(response({"input_tokens": "10", "output_tokens": "5"})), HOLD),
    "usage as floats": ("openai", whole(response({"input_tokens": 10.0, "output_tokens": 5.5})), (10, 6, 0)),
    "huge usage": ("openai", whole(response({"input_tokens": 10**9, "output_tokens": 10**9})), "doubt"),
    "over 2^31": ("openai", whole(response({"input_tokens": 2**31, "output_tokens": 2**40})), HOLD),
    "above the window": ("openai", whole(response({"input_tokens": 500_000, "output_tokens": 9})), "doubt"),
    "NaN usage": ("openai", whole('{"status":"completed","usage":{"input_tokens":NaN,"output_tokens":Infinity}}'), HOLD),
    "usage is a list": ("openai", whole(response([1, 2])), HOLD),
    "usage is missing": ("openai", whole(response(None)), HOLD),
    "usage is true": ("openai", whole(response({"input_tokens": True, "output_tokens": True})), HOLD),
    "more cached than asked": ("openai", whole(response({**OK, "input_tokens_details": {"cached_tokens": 999, "cache_write_tokens": 99}})), (0, 5, 10)),
    "no JSON": ("openai", whole("hello"), HOLD),
    "an empty body": ("openai", whole(""), HOLD),
    "a deep body": ("openai", whole('{"a":' + "[" * 200_000 + "]" * 200_000 + "}"), HOLD),
    "usage twice in one object": ("openai", whole('{"status":"completed","usage":{"input_tokens":10,"output_tokens":5},"usage":{"input_tokens":1,"output_tokens":0}}'), HOLD),
    "usage twice in a stream": ("openai", stream(completed(OK), completed({"input_tokens": 1, "output_tokens": 0})), (10, 5, 0)),
    "more usage after the end": ("openai", stream(completed(OK), "[DONE]", completed({"input_tokens": 500, "output_tokens": 7})), (500, 7, 0)),
    "only the end mark": ("openai", stream("[DONE]"), HOLD),
    "no events": ("openai", stream(), HOLD),
    "garbage events": ("openai", stream("{", "}{", "\\u0000", "null", "[]", "1"), HOLD),
    "a big event": ("openai", stream({"type": "response.output_text.delta", "delta": "x" * 200_000}, completed({"input_tokens": 10, "output_tokens": 1_900})), (10, 1_900, 0)),
    "a big event for few tokens": ("openai", stream({"type": "response.output_text.delta", "delta": "x" * 300_000}, completed(OK)), "doubt"),
    "an error event": ("openai", stream({"type": "error", "message": "x"}), HOLD),
    "zeros by the Responses API": ("openai", stream({"type": "response.output_text.delta", "delta": TEXT}, completed(NOTHING)), "doubt"),
    "HTTP/1.0": ("openai", b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n" + response(OK).encode(), (10, 5, 0), "close"),
    "no HTTP": ("openai", b"hello", HOLD, "close"),
    "status 999": ("openai", whole(response(OK), "HTTP/1.1 999 X"), (10, 5, 0)),
    "status 201": ("openai", whole(response(OK), "HTTP/1.1 201 X"), (10, 5, 0)),
    "status 204": ("openai", b"HTTP/1.1 204 X\r\n\r\n", HOLD),
    "status 304": ("openai", b"HTTP/1.1 304 X\r\n\r\n", (0, 0, 0)),
    "a redirect": ("openai", whole("{}", "HTTP/1.1 307 X", "location: http://127.0.0.1:9/steal\r\n"), (0, 0, 0)),
    "status 401": ("openai", whole("{}", "HTTP/1.1 401 X"), (0, 0, 0)),
    "status 402": ("openai", whole("{}", "HTTP/1.1 402 X"), (0, 0, 0)),
    "status 500": ("openai", whole("{}", "HTTP/1.1 500 X"), (0, 0, 0)),
    "status 504": ("openai", whole("{}", "HTTP/1.1 504 X"), HOLD),
    "status 524": ("openai", whole("<html>", "HTTP/1.1 524 X"), HOLD),
    "too short": ("openai", b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\nhello", HOLD, "close"),
    "a bad chunk": ("openai", b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello", HOLD, "close"),
    "cut before its usage": ("openai", stream({"type": "response.output_text.delta", "delta": TEXT}, ends=False), HOLD, "close"),
    "cut behind its usage": ("openai", stream(completed(OK), ends=False), (10, 5, 0), "close"),
    "transfer coding gzip": ("openai", b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", HOLD, "close"),
    "gzip though identity": ("openai", whole(gzip.compress(PACKED), more="content-encoding: gzip\r\n"), (900, 9, 0)),
    "gzip in two members": ("openai", whole(gzip.compress(PACKED[:40]) + gzip.compress(PACKED[40:]), more="content-encoding: x-gzip\r\n"), (900, 9, 0)),
    "deflate": ("openai", whole(zlib.compress(PACKED), more="content-encoding: deflate\r\n"), (900, 9, 0)),
    "deflate without its head": ("openai", whole(zlib.compress(PACKED)[2:-4], more="content-encoding: deflate\r\n"), (900, 9, 0)),
    "gzip that breaks off": ("openai", whole(gzip.compress(PACKED)[:-12], more="content-encoding: gzip\r\n"), HOLD),
    "gzip that is none": ("openai", whole(PACKED, more="content-encoding: gzip\r\n"), HOLD),
    "gzip twice": ("openai", whole(gzip.compress(gzip.compress(PACKED)), more="content-encoding: gzip, gzip\r\n"), HOLD),
    "brotli": ("openai", whole(b"\x0b\x02\x80hello\x03", more="content-encoding: br\r\n"), HOLD),
    "a refusal in brotli": ("openai", whole(b"\x0b\x02\x80hello\x03", "HTTP/1.1 401 X", "content-encoding: br\r\n"), (0, 0, 0)),
    "a bomb": ("openai", whole(BOMB, more="content-encoding: deflate\r\n"), HOLD),
    "zeros, streamed": ("scripted", stream(said({"content": TEXT}), said({}, "stop", usage=ZEROS)), "doubt"),
    "zeros, whole": ("scripted", whole(json.dumps({"choices": [{"message": {"content": TEXT}, "finish_reason": "stop"}], "usage": ZEROS})), "doubt"),
    "usage, then zeros": ("scripted", stream(said({"content": TEXT}), said({}, "stop", usage=CHAT), {"choices": [], "usage": ZEROS}), (900, 300, 0)),
    "zeros, usage, zeros": ("scripted", stream(said({"content": TEXT}, usage=ZEROS), said({}, "stop", usage=CHAT), {"choices": [], "usage": ZEROS}), (900, 300, 0)),
    "no tokens out for text": ("scripted", stream(said({"content": TEXT}), said({}, "stop", usage={**CHAT, "completion_tokens": 0, "total_tokens": 900})), "doubt"),
    "usage in its choice": ("scripted", stream(said({"content": TEXT}), said({}, "stop", choice={"usage": {**CHAT, "cached_tokens": 800}}), "[DONE]"), (100, 300, 800)),
    "usage as floats in a stream": ("scripted", stream(said({"content": TEXT}), said({}, "stop", usage={key: float(value) for key, value in CHAT.items()})), (900, 300, 0)),
    "usage behind the end": ("scripted", stream(said({"content": TEXT}), said({}, "stop"), {"choices": [], "usage": CHAT}, "[DONE]"), (900, 300, 0)),
    "usage before the end": ("scripted", stream(said({"content": TEXT}), said({}, usage=CHAT), said({}, "stop", usage=None), "[DONE]"), (900, 300, 0)),
    "no end": ("scripted", stream(said({"content": TEXT}), "[DONE]"), HOLD),
    "an error chunk": ("scripted", stream(b": PROCESSING\n\n", said({"content": ""}, "error", error={"code": 400, "message": "x"}), "[DONE]"), HOLD),
    "the input split at the end": ("minimax", stream(*message({"input_tokens": 8_834, "output_tokens": 0}, {"input_tokens": 18, "output_tokens": 426, "cache_read_input_tokens": 8_831})), (18, 426, 8_831)),
    "the split is a little smaller": ("minimax", stream(*message({"input_tokens": 8_834, "output_tokens": 0}, {"input_tokens": 1, "output_tokens": 426, "cache_read_input_tokens": 8_800})), (34, 426, 8_800)),
    "the input shrinks": ("minimax", stream(*message({"input_tokens": 8_834, "output_tokens": 0}, {"input_tokens": 18, "output_tokens": 426})), (8_834, 426, 0)),
    "a guess at the start": ("minimax", stream(*message({"input_tokens": 1, "output_tokens": 1}, {"input_tokens": 4_522, "output_tokens": 55})), (4_522, 55, 0)),
    "the usage with message_stop": ("minimax", stream(*message({"input_tokens": 900, "output_tokens": 1}, None, [{"type": "message_stop", "usage": {"output_tokens": 55}}])), (900, 55, 0)),
    "no usage with the end": ("minimax", stream(*message({"input_tokens": 900, "output_tokens": 1}, None)), HOLD),
    "zeros by the messages API": ("minimax", stream(*message(NOTHING, {"output_tokens": 0})), "doubt"),
    "input told, then cut": ("anthropic", stream(*message({"input_tokens": 100, "cache_read_input_tokens": 800, "output_tokens": 1}, {})[:2], ends=False), (100, 2_000, 800), "close"),
    "input told by another, then cut": ("minimax", stream(*message({"input_tokens": 900, "output_tokens": 1}, {})[:2], ends=False), HOLD, "close"),
}  # fmt: skip
PATHS = {"openai": "/v1/responses", "scripted": "/v1/chat/completions"}


@pytest.fixture
def ask(make_house):
    """Send one call under a cap to a provider that gives this answer: the bytes that the box got, and the call."""
    upstream = ManualUpstream()

    def ask(name, answer, *, closes):
        keys = {f"{each.upper()}_API_KEY": "sk-of-the-host-0123456789" for each in ("openai", "scripted", "anthropic", "minimax")}  # fmt: skip
        house = make_house({name: upstream.url}, keys=keys, prices=OnePrice())
        sock = raw_client(house.open(provider=name))
        house.tickets.runs[7].caps = FakeCaps(cost_cap_micros=10**8)
        is_stream = b"text/event-stream" in answer
        build, limit = (responses, "max_output_tokens") if name == "openai" else (chat, "max_tokens")
        body = json.dumps(build("m", stream=is_stream, **{limit: 2_000})).encode()
        path = PATHS.get(name, "/v1/messages").encode()
        sock.sendall(b"POST %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (path, len(body), body))  # fmt: skip
        upstream.read_request()
        upstream.send(answer)
        if closes:
            upstream.close()
        got = b""
        while piece := sock.recv(1024 * 1024):
            got = (got + piece)[:2_000_000]
        sock.close()
        house.ledger.settled()
        [call] = house.ledger.calls
        return got, call

    yield ask
    upstream.close()


@pytest.mark.parametrize("case", CASES)
def test_an_answer_counts_what_it_measured_or_all_that_was_held(ask, case):
    name, answer, expected, *closes = CASES[case]

    got, call = ask(name, answer, closes=bool(closes))

    end, klass = call.end, call.cost.cost_class
    assert got == b"" or got.startswith(b"HTTP/1.1 ")
    assert b"content-encoding" not in got
    if expected in {HOLD, "doubt"}:
        assert (call.state, end.measured) == ("assumed", False)
        assert (call.micros, call.tokens) == (call.held_micros, call.held_tokens)
        assert klass is (CostClass.ASSUMED if expected == HOLD else CostClass.ESTIMATE)
        assert (end.doubt is not None) == (expected == "doubt")
        return
    assert (end.tokens_in, end.tokens_out, end.cache_read) == expected
    assert klass is (CostClass.METERED if end.measured else CostClass.ASSUMED)
    assert call.micros <= call.held_micros or end.tokens_in > 2_048
