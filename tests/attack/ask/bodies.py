"""Requests that were made to get more than a run may have: odd limits, odd JSON, and everything a provider can be sent to."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES

ODD = json.loads((Path(__file__).parent / "bodies.json").read_text())
LIMIT = {ANTHROPIC: "max_tokens", OPENAI: "max_tokens", RESPONSES: "max_output_tokens"}
CONVERSATION = {ANTHROPIC: "messages", OPENAI: "messages", RESPONSES: "input"}
_LEFT_OUT = object()


def base(api: str, model: str, /, **more: Any) -> dict[str, Any]:
    asked = {"model": model, LIMIT[api]: 100, CONVERSATION[api]: [{"role": "user", "content": "hi"}], **more}
    return {name: value for name, value in asked.items() if value is not _LEFT_OUT}


def bodies(api: str, model: str) -> Iterator[tuple[str, bytes]]:
    """Each with a name."""
    make = _Maker(api, model)
    yield from _limits(make)
    yield from _texts(make)
    yield from _members(make)
    yield from _conversations(make)


class _Maker:
    def __init__(self, api: str, model: str) -> None:
        self.api, self.model = api, model
        self.limit, self.conversation = LIMIT[api], CONVERSATION[api]
        self.plain = json.dumps(base(api, model), separators=(",", ":"))

    def asked(self, **more: Any) -> bytes:
        return json.dumps(base(self.api, self.model, **more), separators=(",", ":")).encode()

    def said(self, content: Any, **more: Any) -> bytes:
        return self.asked(**{self.conversation: [{"role": "user", "content": content, **more}]})

    def raw(self, text: str) -> bytes:
        return text.encode("utf-8", "surrogatepass")


def _limits(make: _Maker) -> Iterator[tuple[str, bytes]]:
    limit = make.limit
    yield "plain", make.raw(make.plain)
    for number in (0, -1, 1, 1.5, 1e3, "100", None, True, [], {}, 2**31, 2**31 + 1, 10**30, 10**400):
        yield f"{limit}={str(number)[:12]}", make.asked(**{limit: number})
    for text in ("1e5", "1E2", "0100", "+5", "0x10", "NaN", "Infinity", "-0", "1_000", "\u0663"):
        yield f"{limit} raw {text}", make.raw(make.plain.replace(f'"{limit}":100', f'"{limit}":{text}'))
    yield "no limit", make.asked(**{limit: _LEFT_OUT})


def _texts(make: _Maker) -> Iterator[tuple[str, bytes]]:
    """JSON that is none, or that can be read in two ways."""
    plain, limit, model = make.plain, make.limit, make.model
    for name, member in (
        ("limit", f'"{limit}":99999'),
        ("limit escaped", f'"{limit[:-1]}\\u{ord(limit[-1]):04x}":99999'),
        ("model", '"model":"x"'),
        ("model escaped", '"mod\\u0065l":"x"'),
        ("model in another case", '"Model":"x"'),
        ("limit in another case", f'"{limit.upper()}":9'),
        ("limit with a kelvin sign", '"max_to\u212aens":9'),
        ("model in full width", '"\uff4d\uff4f\uff44\uff45\uff4c":"x"'),
        ("a comment", '/*c*/"x":1'),
        ("a comma", ""),
        ("a prototype", '"__proto__":{"max_tokens":9}'),
        ("deep objects", '"metadata":' + '{"a":' * 50_000 + "1" + "}" * 50_000),
        ("mismatched", '"metadata":{"a":[1}]'),
        ("a tool of two types", '"tools":[{"type":"function","type":"web_search"}]'),
        ("a tool of an escaped type", '"tools":[{"type":"function","\\u0074ype":"web_search"}]'),
        ("a tool of a type in capitals", '"tools":[{"type":"function","name":"x","TYPE":"web_search"}]'),
    ):
        yield f"with {name}", make.raw(f"{plain[:-1]},{member}}}")
    yield "escaped model alone", make.raw(plain.replace('"model"', '"mod\\u0065l"'))
    yield "escaped limit alone", make.raw(plain.replace(f'"{limit}"', f'"\\u006d{limit[1:]}"'))
    for name in (
        f"{model}\0",
        f" {model}",
        model.upper(),
        f"{model}/",
        f"../{model}",
        5,
        [model],
        "nope",
        "",
    ):
        yield f"model {name!r}", make.asked(model=name)
    yield "byte order mark", b"\xef\xbb\xbf" + make.raw(plain)
    for coding in ("utf-16", "utf-16-le", "utf-32"):
        yield coding, plain.encode(coding)
    for tail in ("x", plain, "\0", " \r\n\t"):
        yield f"followed by {tail[:8]!r}", make.raw(plain + tail)
    for head in (" \n", "\f", "\u00a0"):
        yield f"after {head!r}", make.raw(head + plain)
    yield "in a list", make.raw(f"[{plain}]")
    yield "single quotes", make.raw(plain.replace('"', "'"))
    yield "empty", b""
    yield "no utf-8", plain.replace("hi", "h\xff").encode("latin-1")
    yield "a line break in a text", make.raw(plain.replace("hi", "h\ni"))
    yield "half a surrogate", make.raw(plain.replace("hi", "\\ud800"))
    yield "an escape that is none", make.raw(plain.replace("hi", "\\x41"))
    yield "deep lists", make.raw(plain.replace('"hi"', "[" * 100_000 + "]" * 100_000))


def _members(make: _Maker) -> Iterator[tuple[str, bytes]]:
    yield "501 members", make.asked(**{f"k{number}": None for number in range(501)})
    for strange in (None, 1, {}, False):
        yield f"strange {strange!r}", make.asked(zzz=strange)
    for stream in ("true", 1, 0, 1.0, "false", None, [], {}):
        yield f"stream={stream!r}", make.asked(stream=stream)
    for name, values in ODD["members"].items():
        for value in values:
            yield f"{name}={json.dumps(value)[:60]}", make.asked(**{name: value})
    for tool in ODD["tools"]:
        yield f"tool {json.dumps(tool)[:70]}", make.asked(tools=[tool])
    yield "tools as an object", make.asked(tools={"type": "web_search"})
    yield "tools as a text", make.asked(tools="web_search")


def _conversations(make: _Maker) -> Iterator[tuple[str, bytes]]:
    for part in ODD["parts"]:
        yield f"part {json.dumps(part)[:90]}", make.said([part])
    for content in (None, {"type": "text", "text": "x"}, 5):
        yield f"content {content!r}", make.said(content)
    for members in ODD["message"]:
        yield f"message {json.dumps(members)}", make.said("hi", **members)
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x"}}]}
    for value in ("hi", {"0": image}, _LEFT_OUT, None, [], 7):
        yield f"{make.conversation} {str(value)[:20]}", make.asked(**{make.conversation: value})
    if make.api == RESPONSES:
        for item in ODD["items"]:
            yield f"item {json.dumps(item)[:80]}", make.asked(input=[item])
