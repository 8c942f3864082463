"""Eighty odd ways to ask at the door: what passes is one POST to the provider's one path, with fields that do nothing else."""

import gzip
import json
import zlib

import pytest

from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.gateway.calls.fields import beside
from pidispatch.gateway.http.http1 import parse_head
from pidispatch.gateway.wire.anthropic import HARMLESS
from pidispatch.gateway.wire.apis import BY_NAME
from tests.gateway.parts import KEY, raw_client

PATH = "/v1/messages"
ASKED = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}]}
BODY = json.dumps(ASKED).encode()
CHUNKED = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
TE = "transfer-encoding: chunked"
MAY_PASS = {
    "host", "content-length", "content-type", "accept-encoding", "x-api-key", "connection", "accept", "user-agent",
    "anthropic-version", "anthropic-beta", "anthropic-dangerous-direct-browser-access",
    *(f"x-stainless-{name}" for name in ("lang", "package-version", "os", "arch", "runtime", "runtime-version", "retry-count", "timeout")),
    "session-id", "session_id", "x-client-request-id", "x-session-id", "x-session-affinity",
}  # fmt: skip


def asked(path=PATH, *fields, body=BODY, method="POST", version="HTTP/1.1", host=True, length=True):
    names = {field.partition(":")[0].strip().lower() for field in fields}
    lines = [f"{method} {path} {version}", *(["host: x"] if host else []), *fields]
    if length and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"content-length: {len(body)}")
    return "\r\n".join([*lines, "connection: close", "", ""]).encode("latin-1") + body


PATHS = [
    "/v1/../v1/messages", "//v1/messages", "/v1//messages", "/v1/messages/", "/v1/messages/batches", "/v1/messages/count_tokens",
    "/v1/%6dessages", "/v1/messages%2fbatches", "/V1/messages", "/v1/messages;a=b", "/v1/messages/../files", "/v1/files", "/v1/models",
    "/v1/batches", "/v1/embeddings", "/v1/responses", "/v1/chat/completions", "/v1/images/generations", "/v1/audio/speech",
    "/v1/complete", "/", "/go/", "/v1/messages\t", "/v1/messages#x", "http://x/v1/messages", "*",
]  # fmt: skip
METHODS = ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "post", "POSTX"]
NEVER = {
    **{f"path {path}": asked(path) for path in PATHS},
    **{f"method {method}": asked(method=method) for method in METHODS},
    "http/1.0": asked(version="HTTP/1.0"),
    "http/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a websocket": asked(PATH, "upgrade: websocket", "sec-websocket-version: 13", method="GET", body=b""),
    "two lengths": asked(PATH, f"content-length: {len(BODY)}", "content-length: 5"),
    "a list of lengths": asked(PATH, f"content-length: {len(BODY)}, {len(BODY)}"),
    "a length and chunks": asked(PATH, f"content-length: {len(BODY)}", TE),
    "a signed length": asked(PATH, f"content-length: +{len(BODY)}"),
    "a negative length": asked(PATH, "content-length: -1"),
    "a length with a space": asked(PATH, f"content-length : {len(BODY)}", length=False),
    "gzip and chunks": asked(PATH, "transfer-encoding: gzip, chunked", body=CHUNKED),
    "identity": asked(PATH, "transfer-encoding: identity"),
    "xchunked": asked(PATH, "transfer-encoding: xchunked"),
    "chunks twice": asked(PATH, TE, TE, body=CHUNKED),
    "a vertical tab": asked(PATH, "transfer-encoding:\x0bchunked", body=CHUNKED),
    "a size with 0x": asked(PATH, TE, body=b"0x" + CHUNKED),
    "a negative size": asked(PATH, TE, body=b"-" + CHUNKED),
    "a huge chunk": asked(PATH, TE, body=b"ffffffff\r\n"),
    "a folded field": asked(PATH, "x-a: b\r\n c"),
    "a zero byte in a field": asked(PATH, "x-a: b\0c"),
    "a carriage return in a field": asked(PATH, "x-a: b\rx-api-key: k"),
    "many fields": asked(PATH, *(f"x-{number}: y" for number in range(250))),
    "a huge field": asked(PATH, "x-a: " + "b" * 70_000),
    "a zipped body": asked(PATH, "content-encoding: gzip", body=gzip.compress(BODY)),
    "a deflated body": asked(PATH, "content-encoding: deflate", body=zlib.compress(BODY)),
    "another encoding": asked(PATH, "content-type: application/json; charset=utf-16", body=json.dumps(ASKED).encode("utf-16")),
    "two bodies": asked(body=BODY + BODY, length=True),
}  # fmt: skip
ROUTING = [
    "x-forwarded-host: evil", "x-original-url: /v1/files", "x-rewrite-url: /v1/files", "forwarded: host=evil", "via: 1.1 x",
    "x-portkey-custom-host: https://evil.example/v1", 'x-portkey-config: {"retry":{"attempts":5}}', "helicone-target-url: https://evil.example",
    "helicone-auth: Bearer x", "cf-aig-max-attempts: 5", "cf-aig-authorization: Bearer x", "x-litellm-num-retries: 5",
    "anthropic-workspace-id: w", "x-openai-organization: q", "openai-beta: x", "x-amz-security-token: t", "x-method: DELETE",
    "x_api_key: mine", "x-api-key_: b", "range: bytes=0-1", "if-none-match: *", "max-forwards: 0", "prefer: respond-async",
    "idempotency-key: k", "x-ms-region: r", "x-goog-user-project: p", "x-request-priority: high", "x-real-ip: 10.0.0.1", "origin: https://evil",
    "referer: https://evil", "x-http-method: PUT", "anthropic-user-profile-id: u", "x-stainless-helper: x", "te: trailers", "expect: 100-continue",
    "x-api-key: mine", "authorization: Bearer mine", "proxy-authorization: b", "api-key: c", "x-goog-api-key: d", "cookie: e=f",
    "openai-organization: o", "openai-project: p", "x-http-method-override: DELETE", "x-unknown: 1", "content-type: text/plain",
    "content-encoding: gzip", "content-language: de", "accept: application/x-ndjson", "accept-encoding: gzip", "user-agent: \xff",
    "session_id: a/../../b", "x-session-affinity: https://evil", "anthropic-version: 2023-06-01, x", "anthropic-beta: code-execution-2025-08-25",
]  # fmt: skip
PASS = {
    "plain": asked(),
    "the query that pi sends": asked(f"{PATH}?beta=true"),
    "another query": asked(f"{PATH}?x=1&max_tokens=99999&model=other&key=k&api-version=1&beta=false&beta=true"),
    "a long query": asked(f"{PATH}?{'a' * 8000}"),
    "an upgrade": asked(PATH, "upgrade: h2c", "http2-settings: AAMAAABkAAQCAAAAAAIAAAAA"),
    "one length twice": asked(PATH, f"content-length: {len(BODY)}", f"content-length: {len(BODY)}"),
    "chunks": asked(PATH, TE, body=CHUNKED),
    "chunks in capitals": asked(PATH, "Transfer-Encoding: CHUNKED", body=CHUNKED),
    "chunks with more": asked(PATH, TE, body=b"%x;a=b\r\n%b\r\n0;x\r\nX-Api-Key: y\r\n\r\n" % (len(BODY), BODY)),
    "no host": asked(host=False),
    "a connection that names fields": asked(PATH, "connection: x-api-key, content-type, accept-encoding, host, content-length"),
    "all at once": asked(PATH, *ROUTING),
    **{field: asked(PATH, field) for field in ROUTING},
}  # fmt: skip


@pytest.fixture
def tried(make_house, recorder):
    """Send these bytes at a door: what came back, and what the provider heard."""
    path = make_house({"anthropic": recorder.url}).open(7, "anthropic")

    def send(raw):
        with raw_client(path) as client:
            client.sendall(raw)
            answer = b""
            while piece := client.recv(65_536):
                answer += piece
        return answer, recorder.heard

    return send


@pytest.mark.parametrize("name", NEVER)
def test_it_reaches_no_provider(tried, name):
    answer, heard = tried(NEVER[name])

    assert heard == []
    assert KEY.encode() not in answer
    assert not answer.startswith(b"HTTP/1.1 2")


@pytest.mark.parametrize("name", PASS)
def test_what_passes_is_the_plain_request_with_known_fields(tried, name):
    answer, heard = tried(PASS[name])

    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 100"))
    [one] = heard
    assert (one.method, one.path.removesuffix("?beta=true"), one.asked) == ("POST", PATH, ASKED)
    fields = dict(one.fields)
    assert len(fields) == len(one.fields)
    assert fields.keys() <= MAY_PASS
    assert (fields["x-api-key"], fields["content-type"], fields["accept-encoding"]) == (
        KEY,
        "application/json",
        "identity",
    )
    assert "evil" not in str(one.fields)


def test_there_are_at_least_as_many_as_were_tried():
    assert len(NEVER) + len(PASS) >= 80


def head(*fields, query=""):
    lines = [f"POST {PATH}{query} HTTP/1.1", *fields]
    return parse_head("\r\n".join(lines).encode("latin-1"))


def test_what_pi_sends_is_passed_on():
    """The fields of its Anthropic client, from pi 1.6.0."""
    sent = {
        "accept": "application/json", "user-agent": "pi/1.6.0 (linux; node/v22.19.0; x64)", "anthropic-version": "2023-06-01",
        "x-stainless-retry-count": "0", "x-stainless-timeout": "600", "x-stainless-lang": "js", "x-stainless-os": "Linux",
        "x-stainless-arch": "x64", "x-stainless-runtime": "node", "x-stainless-runtime-version": "v22.19.0",
        "x-stainless-package-version": "0.71.2", "anthropic-dangerous-direct-browser-access": "true",
        "anthropic-beta": "fine-grained-tool-streaming-2025-05-14,interleaved-thinking-2025-05-14,inline-tools-2026-09-15",
        "x-session-affinity": "0198-ab", "content-type": "application/json",
    }  # fmt: skip
    passed = beside(
        head(*(f"{name}: {text}" for name, text in sent.items()), query="?beta=true"), BY_NAME[ANTHROPIC]
    )

    assert dict(passed.fields) == sent
    assert passed.query == "beta=true"
    assert "interleaved-thinking" in passed.meaning


@pytest.mark.parametrize("api", [OPENAI, RESPONSES])
def test_fields_of_one_api_do_not_pass_to_another(api):
    passed = beside(
        head("anthropic-beta: x", "anthropic-version: 2023-06-01", query="?beta=true"), BY_NAME[api]
    )

    assert (passed.fields, passed.query) == ((("content-type", "application/json"),), "")


@pytest.mark.parametrize(
    "beta",
    ["code-execution-2025-08-25", "web-fetch-2025-09-10", "mcp-client-2025-04-04", "files-api-2025-04-14", "skills-2025-10-02",
     "context-management-2025-06-27", "compact-2026-01-12", "fast-mode-2026-02-01", "managed-agents-2026-04-01",
     "message-threads-2026-08-12", "computer-use-2025-01-24", "FINE-GRAINED-tool-streaming-2025-05-14", "nobody-knows-2030-01-01"],
)  # fmt: skip
def test_no_beta_passes_that_has_the_provider_run_keep_or_bill_more(beta):
    good = min(HARMLESS)
    passed = dict(
        beside(head(f"anthropic-beta: {beta}, {good}", f"anthropic-beta: {beta}"), BY_NAME[ANTHROPIC]).fields
    )

    assert passed["anthropic-beta"] == good
    assert "anthropic-beta" not in dict(beside(head(f"anthropic-beta: {beta}"), BY_NAME[ANTHROPIC]).fields)


def test_the_beta_of_a_listed_tool_passes():
    fields = head("anthropic-beta: web-fetch-2025-09-10,code-execution-2025-08-25")

    assert (
        dict(beside(fields, BY_NAME[ANTHROPIC], ["web_fetch"]).fields)["anthropic-beta"]
        == "web-fetch-2025-09-10"
    )
