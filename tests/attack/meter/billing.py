"""A provider that bills by its own rules, reports as it likes, and an answer that may break off at any moment."""

import contextlib
import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pidispatch.domain.providers.rates import Price, Tokens
from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.gateway.calls.upstream import ProviderAnswer, UpstreamFailed
from tests.gateway.counting import counted

UNLIMITED = 1_000_000
SSE = ("content-type", "text/event-stream")
JSON = ("content-type", "application/json")


@dataclass(frozen=True)
class Behaviour:
    """What the provider does with one call.

    `share` of what it may make it makes, `shown` of that as text; a cut comes before the event of that number. `rate`:
    it is no faster, and stops when it is hung up on; None: it goes on, and bills all of it.
    """

    share: float = 1.0
    shown: float = 0.5
    cached: float = 0.0
    report: str = "exact"
    cut: str | None = None
    cut_at: int = 0
    coding: str | None = None
    status: int = 200
    rate: int | None = None
    seconds: float = 1.0  # between two events


class BillingProvider:
    """Implements what the proxy asks of `Upstream`. `bill` is in micro-dollars; `now` its clock, which the meter reads."""

    def __init__(self, price: Price, *, width: int) -> None:
        self._price, self._width = price, width
        self.behaviour = Behaviour()
        self.now = 0.0
        self.bill = 0

    def close(self) -> None:
        """Nothing is open."""

    @contextlib.contextmanager
    def post(self, url: str, fields: Any, body: bytes, line: Any, patience: Any) -> Iterator[ProviderAnswer]:
        how, asked = self.behaviour, json.loads(body)
        if how.cut == "connect":
            raise UpstreamFailed("ConnectError", sent=False)
        call = _Work(self, how, _api(url), asked, self._width)
        if how.status != 200:
            self.bill += call.cost(self._price, call.made) if how.status in {504, 520, 524} else 0
            yield ProviderAnswer(how.status, (JSON,), iter((b'{"error":{"message":"no"}}',)))
            return
        if how.cut is not None and how.cut_at == 0:
            self.bill += call.cost(self._price, call.made_when_cut())
            raise call.broken(line)
        packed = () if how.coding is None else (("content-encoding", how.coding),)
        yield ProviderAnswer(
            200, (SSE if asked.get("stream") else JSON, *packed), call.chunks(line, self._price)
        )


class _Work:
    def __init__(
        self, provider: BillingProvider, how: Behaviour, api: str, asked: dict[str, Any], width: int
    ) -> None:
        self.provider, self.how, self.api, self.asked = provider, how, api, asked
        limit = asked.get("max_output_tokens" if api == RESPONSES else "max_tokens") or UNLIMITED
        self.choices = asked.get("n") or 1
        self.made = int(limit * how.share) * self.choices
        self.tokens_in = counted(api, asked, width)
        self.read = int(self.tokens_in * how.cached)
        marked = api == ANTHROPIC and "cache_control" in json.dumps(asked)
        self.written = self.tokens_in - self.read if marked else 0
        self.text = "w" * min(int(self.made * how.shown), 3_000)
        self.began = provider.now

    def cost(self, price: Price, made: int) -> int:
        fresh = self.tokens_in - self.read - self.written
        return price.cost(Tokens(fresh=fresh, out=made, cache_read=self.read, cache_write=self.written))

    def made_when_cut(self, sent: bytes = b"") -> int:
        """What it has reported it also bills."""
        if self.how.rate is None or self.how.cut != "client" or self._has_reported(sent):
            return self.made
        # What took exactly its time is whole: the sum of floats that says so may be a hair less.
        whole = int((self.provider.now - self.began) * self.how.rate + 1e-6)
        return min(self.made, whole * self.choices)

    def _has_reported(self, sent: bytes) -> bool:
        plain = zlib.decompressobj(47).decompress(sent) if self.how.coding in {"gzip", "deflate"} else sent
        last = self.last()
        return last is not None and json.dumps(last).encode() in plain

    def begun_at(self, part: float) -> float:
        """When this part of the answer is made, at the earliest."""
        return self.began + (0 if self.how.rate is None else part * self.made / self.choices / self.how.rate)

    def broken(self, line: Any) -> UpstreamFailed:
        if self.how.cut == "client":
            line.cut()
        if self.how.cut == "timeout":
            self.provider.now += 300
        return UpstreamFailed(f"cut by {self.how.cut}", sent=True)

    def chunks(self, line: Any, price: Price) -> Iterator[bytes]:
        events = [*self.events()] if self.asked.get("stream") else [json.dumps(self.document()).encode()]
        raw = b"".join(events)
        if self.how.coding is not None:
            pack = {"gzip": gzip.compress, "deflate": zlib.compress}.get(self.how.coding, bytes)
            raw = pack(raw)
            events = [raw[at : at + 50] for at in range(0, len(raw), 50)]
        sent = b""
        for number, event in enumerate(events, 1):
            self.provider.now = max(self.provider.now + self.how.seconds, self.begun_at(number / len(events)))
            if self.how.cut is not None and number >= self.how.cut_at:
                self.provider.bill += self.cost(price, self.made_when_cut(sent))
                raise self.broken(line)
            sent += event
            yield event
        self.provider.bill += self.cost(price, self.made)

    def usage(self, style: str, made: int) -> dict[str, Any] | None:
        """One report in the words of the API."""
        asked, read, written = self.tokens_in, self.read, self.written
        if style == "zeros":
            asked = read = written = made = 0
        elif style == "huge":
            asked, made = 10**9, 10**9
        elif style == "guess":
            asked, read, written, made = 1, 0, 0, 0
        elif style == "whole":
            read = written = made = 0
        number = float if self.how.report == "floats" else int
        if self.api == ANTHROPIC:
            parts = {
                "input_tokens": asked - read - written,
                "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "output_tokens": made,
            }
            return {name: number(count) for name, count in parts.items()}
        names = (
            ("input_tokens", "output_tokens")
            if self.api == RESPONSES
            else ("prompt_tokens", "completion_tokens")
        )
        details = "input_tokens_details" if self.api == RESPONSES else "prompt_tokens_details"
        return {
            names[0]: number(asked),
            names[1]: number(made),
            "total_tokens": number(asked + made),
            details: {"cached_tokens": number(read), "cache_write_tokens": number(written)},
        }

    def last(self) -> dict[str, Any] | None:
        """The final report, by the provider's habit."""
        if self.how.report == "none":
            return None
        return self.usage(self.how.report if self.how.report in {"zeros", "huge"} else "exact", self.made)

    def document(self) -> dict[str, Any]:
        used = self.last()
        if self.api == ANTHROPIC:
            content = [{"type": "text", "text": self.text}]
            return {"type": "message", "stop_reason": "max_tokens", "content": content, "usage": used}
        if self.api == RESPONSES:
            return self._response(used)
        messages = [
            {"index": number, "message": {"content": self.text}, "finish_reason": "length"}
            for number in range(self.choices)
        ]
        return {"choices": messages, "usage": used}

    def events(self) -> Iterator[bytes]:
        pieces = [self.text[at : at + 600] for at in range(0, len(self.text), 600)]
        yield b": keep-alive\n\n"
        yield from (_sse(event) for event in {ANTHROPIC: self._messages, OPENAI: self._chat, RESPONSES: self._responses}[self.api](pieces))  # fmt: skip
        if self.api == OPENAI:
            yield b"data: [DONE]\n\n"

    def _messages(self, pieces: list[str]) -> Iterator[dict[str, Any]]:
        first = {"guess": "guess", "split": "whole", "zeros": "zeros"}.get(self.how.report, "start")
        used = self.usage(first, 0) if self.how.report != "none" else {}
        yield {"type": "message_start", "message": {"usage": used}}
        for piece in pieces:
            yield {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}
        yield {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": self.last() or {}}
        yield {"type": "message_stop"}
        yield from self._afterwards()

    def _chat(self, pieces: list[str]) -> Iterator[dict[str, Any]]:
        yield {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}
        for number, piece in enumerate(pieces, 1):
            running = self.usage("exact", self.made * number // (len(pieces) + 1))
            more = {"usage": running} if self.how.report == "running" else {}
            yield {"choices": [{"index": 0, "delta": {"content": piece}}], **more}
        habit = self.how.report if self.choices == 1 or self.how.report != "choice" else "exact"
        if habit == "before":
            yield {"choices": [{"index": 0, "delta": {}}], "usage": self.last()}
        for number in range(self.choices):
            end: dict[str, Any] = {"index": number, "delta": {}, "finish_reason": "length"}
            if habit == "choice":
                end["usage"] = self.last()
            yield {"choices": [end], "usage": None}
        if habit not in {"before", "choice"}:
            yield {"choices": [], "usage": self.last()}
        yield from self._afterwards()

    def _responses(self, pieces: list[str]) -> Iterator[dict[str, Any]]:
        for piece in pieces:
            yield {"type": "response.output_text.delta", "delta": piece}
        yield {"type": "response.incomplete", "response": self._response(self.last())}
        yield from self._afterwards()

    def _afterwards(self) -> Iterator[dict[str, Any]]:
        if self.how.report == "zeros-after":
            yield {"type": "message_delta", "delta": {}, "choices": [], "usage": self.usage("zeros", 0)}

    def _response(self, used: dict[str, Any] | None) -> dict[str, Any]:
        output = [{"type": "message", "content": [{"type": "output_text", "text": self.text}]}]
        why = {"reason": "max_output_tokens"}
        return {"status": "incomplete", "incomplete_details": why, "output": output, "usage": used}


def _sse(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


def _api(url: str) -> str:
    return {"messages": ANTHROPIC, "responses": RESPONSES}.get(url.rpartition("/")[2], OPENAI)
