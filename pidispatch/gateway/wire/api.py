"""Describe a wire API by one record, and read the parts of its requests by their shapes, keeping what does not fit one.

Under a cap only what stands in a record may be asked for: a member that nobody here knows may cost anything. Nothing is
raised but for a text that is no JSON: whoever weighs a request must see all of it, since what stands behind the first
problem may lead out of the box.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from re import Pattern
from typing import Any

from pidispatch.domain.providers.rates import CacheWrites
from pidispatch.domain.providers.wireapis import BASE_PATHS
from pidispatch.gateway.wire import shapes
from pidispatch.gateway.wire.references import MOST_SHOWN, References
from pidispatch.gateway.wire.scanning import NotARequest, Span, as_dict, elements, key, members, value
from pidispatch.gateway.wire.shapes import Shape
from pidispatch.gateway.wire.usage import Tally

MOST_PARTS = 2_000
_MOST_WORD = 256
_MOST_ADDRESS = 8_192
_MOST_BUILT = 8 * 1024 * 1024
_NOTHING = frozenset({b"null", b"[]", b"{}", b'""', b"false"})
_REFERRING = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
TIERS = (None, "auto", "default", "standard", "standard_only", "flex", "on_demand")
NOTHING: tuple[Any, ...] = (None, [], {})
# What makes a provider work on after it has answered, or on what does not stand in the request: neither can be counted.
ELSEWHERE = ("background", "previous_response_id", "conversation", "prompt", "thread")
OF_ANY_API = "model stream stream_options temperature top_p metadata tools tool_choice service_tier"
OF_OPENAI = (
    "store user safety_identifier prompt_cache_key prompt_cache_retention parallel_tool_calls top_logprobs"
)

Weight = Callable[["Reader", Span], int]


@dataclass(frozen=True, slots=True)
class ErrorText:
    """An error as the box is told it; `reason` is the word of a cap, where one says so."""

    kind: str
    message: str
    reason: str | None = None


@dataclass(frozen=True)
class WireApi:
    """One wire API, by the name that pi has for it. `path` is where it is asked, behind a door and at a provider.

    Requests: `conversation` is the list that grows from call to call, and `weigh` bounds the tokens of one element of
    it. `limits` are the members that bound the output; all of them are heard by the providers in `hears_all`, by others
    only those behind the first. Of the other members, the bytes of `members` bound what they cost, and `only` are
    bounded with these values alone. `checks` look into a member in their own way, and `entries` into the elements of a
    list. `schemas`: what the provider writes out anew in more words. `tools`: types of tools that the asker runs.
    `image`: tokens of an image at most. `cache_writes`: what is written to the cache without being asked for.

    Beside the body `queries` and the header fields `fields` are passed on, and of those in `listed` what each leaves of
    its value, given the tools that an operator lets providers run. `key` makes the field that carries a key.

    Answers: `read` takes one event, or a whole answer, into a tally. `asks_for_usage`: a stream tells it when asked.
    `tells_input`: the providers whose answers begin with the exact count of their input. `error` makes an error's body.
    """

    name: str
    path: str
    conversation: str
    limits: tuple[str, ...]
    members: frozenset[str]
    only: Mapping[str, tuple[Any, ...]]
    schemas: tuple[str, ...]
    tools: frozenset[str | None]
    image: int
    weigh: Weight
    key: Callable[[str], tuple[str, str]]
    read: Callable[[Tally, dict[str, Any]], None]
    error: Callable[[ErrorText], dict[str, Any]]
    hears_all: frozenset[str] = frozenset()
    checks: Mapping[str, Callable[["Reader", Span], None]] = field(default_factory=dict)
    entries: Mapping[str, Weight] = field(default_factory=dict)
    cache_writes: CacheWrites = CacheWrites.SHORT
    queries: frozenset[str] = frozenset()
    fields: Mapping[str, Pattern[str]] = field(default_factory=dict)
    listed: Mapping[str, Callable[[str, Iterable[str]], str]] = field(default_factory=dict)
    asks_for_usage: bool = False
    tells_input: frozenset[str] = frozenset()

    @cached_property
    def known(self) -> frozenset[str]:
        return self.members.union(self.only, ELSEWHERE)

    @property
    def suffix(self) -> str:
        """What is put behind a provider's base URL, which may end in a part of the path."""
        return self.path.removeprefix(BASE_PATHS[self.name])

    def limit_names(self, provider: str) -> tuple[str, ...]:
        """The members by which this provider surely bounds its output, the usual one first."""
        return self.limits if len(self.limits) == 1 or provider in self.hears_all else self.limits[1:]


@dataclass(frozen=True, slots=True)
class Reader:
    """One request's body in its API; `found` grows with what is read."""

    api: "WireApi"
    body: bytes
    found: References

    def members(self, span: Span) -> dict[str, Span]:
        """The members of an object; one that is given twice could be read in two ways."""
        named: dict[str, Span] = {}
        for raw, at in members(self.body, span[0])[0]:
            name = key(raw)
            if name in named:
                raise NotARequest(f"{name[:MOST_SHOWN]} is given twice")
            named[name] = at
        return named

    def check(self, named: Mapping[str, Span], shape: Shape, what: str) -> None:
        """Keep each member that `shape` does not have, and refuse what holds more than it says."""
        for name, at in named.items():
            may_nest = shape.get(name)
            if may_nest is None and not self.is_null(at):
                self.unknown(name, f"{name[:MOST_SHOWN]} in {what}", at)
            elif not may_nest and not self.is_plain(at):
                self.found.refuse(f"{name[:MOST_SHOWN]} in {what} must be a plain value")

    def shape(self, span: Span | None, shape: Shape, what: str) -> dict[str, Span]:
        """The members of an object of this shape; none for null."""
        if self.is_null(span) or span is None:
            return {}
        named = self.members(span)
        self.check(named, shape, what)
        return named

    def unknown(self, word: str, said: str, at: Span) -> None:
        """A member or kind that is not known: an operator may list it, and addresses in it are judged all the same."""
        self.found.word(word, said)
        self.found.addresses_in(value(self.body, at, _MOST_BUILT))

    def kind(self, named: Mapping[str, Span]) -> str | None:
        """What `type` says; None where it is not there, and "" where it says nothing or is no text."""
        if "type" not in named:
            return None
        word = value(self.body, named["type"], _MOST_WORD)
        return word if isinstance(word, str) else ""

    def word(self, span: Span | None) -> str:
        """A short text; empty for anything else."""
        word = value(self.body, span, _MOST_WORD) if self.is_text(span) else ""
        return str(word)

    def parts(self, span: Span | None, weight: Weight, what: str) -> int:
        """The sum over the parts of a content; one that is text adds nothing to its bytes."""
        if self.is_null(span) or self.is_text(span):
            return 0
        return self.each(span, weight, what)

    def each(self, span: Span | None, weight: Weight, what: str) -> int:
        """The sum over the elements of a list; nothing for null."""
        if self.is_null(span) or span is None:
            return 0
        if not self.is_list(span):
            self.found.refuse(f"{what} must be a list")
            return 0
        added = 0
        for count, element in enumerate(elements(self.body, span)):
            if count >= MOST_PARTS:
                self.found.refuse(f"{what} has too many parts")
                break
            added += weight(self, element)
        return added

    def image(self, span: Span | None, what: str) -> int:
        """What is to be added for an image by its address, which may hold its data."""
        start = b"" if span is None else self.body[span[0] : span[0] + 12].lower()
        if start.startswith(b'"data:image/'):
            return self.api.image - self.text_size(span)
        if start.startswith(b'"data:'):
            self.found.unbound(f"{what} that is no image")
        else:
            self.address(span, what)
        return 0

    def address(self, span: Span | None, what: str) -> None:
        """Something that the provider is to fetch."""
        if not self.is_text(span):
            self.found.refuse(f"{what} has no address that can be read")
            return
        self.found.unbound(f"{what} by its address, whose size is not known")
        self.found.address(str(value(self.body, span, _MOST_ADDRESS)))

    def tools(self, span: Span | None) -> None:
        """Tools that are offered to the model: the asker runs those of the known types."""
        self.each(span, Reader.tool, "tools")

    def tool(self, span: Span) -> int:
        """One of them; it adds nothing here."""
        named = self.members(span)
        if not self.is_known(self.kind(named), self.api.tools, span, "a tool"):
            return 0
        self.check(named, shapes.TOOL, "a tool")
        inside = [
            self.shape(named.get(name), shapes.TOOL_INSIDE, "a tool") for name in ("function", "custom")
        ]
        for each in (named, *inside):
            # Kimi's own tools have such names: https://platform.moonshot.ai/docs/guide/use-web-search
            name = self.word(each.get("name"))
            if name.startswith("$"):
                self.found.word(name, f"the tool {name[:MOST_SHOWN]}")
        self.schema(span)
        return 0

    def schema(self, span: Span | None) -> None:
        """A JSON schema may refer to one that lies elsewhere, which some servers fetch."""
        if span is None or not any(mark in self.body[span[0] : span[1]] for mark in (b"$", b"\\u")):
            return
        pending: list[Any] = [value(self.body, span, _MOST_BUILT)]
        while pending:
            each = pending.pop()
            pending += each if isinstance(each, list) else as_dict(each).values()
            for name in _REFERRING & as_dict(each).keys():
                if isinstance(each[name], str) and not each[name].startswith("#"):
                    self.found.address(each[name])

    def is_null(self, span: Span | None) -> bool:
        return span is None or self.body[span[0] : span[1]] == b"null"

    def is_nothing(self, span: Span | None) -> bool:
        """Null, false, or an empty text, list or object."""
        return span is None or self.body[span[0] : span[1]] in _NOTHING

    def is_text(self, span: Span | None) -> bool:
        return span is not None and self.body[span[0] : span[0] + 1] == b'"'

    def is_list(self, span: Span | None) -> bool:
        return span is not None and self.body[span[0] : span[0] + 1] == b"["

    def is_plain(self, span: Span) -> bool:
        return self.body[span[0] : span[0] + 1] not in (b"{", b"[")

    def text_size(self, span: Span | None) -> int:
        """The bytes between the quotes of a text, 0 for anything else."""
        return span[1] - span[0] - 2 if self.is_text(span) and span is not None else 0

    def is_known(self, kind: str | None, kinds: Collection[str | None], span: Span, what: str) -> bool:
        """Whether a part of this type is known here; one that is not is kept."""
        if kind in kinds:
            return True
        if kind:
            self.unknown(kind, f"{what} of type {kind[:MOST_SHOWN]}", span)
        else:
            self.found.refuse(f"{what} must have a type")
        return False


def names(*words: str) -> frozenset[str]:
    return frozenset(name for word in words for name in word.split())


def bearer(key: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {key}")


def openai_error(error: ErrorText) -> dict[str, Any]:
    return {"error": {"message": error.message, "type": error.kind, "param": None, "code": error.reason}}
