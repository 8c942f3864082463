"""Bound what one model call may use, before it is made."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pidispatch.domain.providers.calls import CallEnd, CallOpened, ProviderFacts, Worst
from pidispatch.domain.providers.rates import CacheWrites, Price
from pidispatch.gateway.calls.envelope import Edit, Envelope, limit_edits
from pidispatch.gateway.calls.prefixes import Prefixes, Trace
from pidispatch.gateway.wire.api import Reader, WireApi
from pidispatch.gateway.wire.apis import BY_NAME
from pidispatch.gateway.wire.members import check_members
from pidispatch.gateway.wire.references import MOST_SHOWN, References
from pidispatch.gateway.wire.scanning import NotARequest, Span, as_dict, elements, value

USUAL_OUTPUT = 32_768
LEAST_OUTPUT = 1_024
# What a provider adds of its own: how tools are called (at most 700 at Anthropic), a preamble, the marks of a message.
OVERHEAD = 2_048
SLACK = 256
# No model reads more, so whatever cannot be bounded is at least this.
LARGEST_WINDOW = 10_000_000
MOST_ELEMENTS = 20_000
MOST_OUTPUT = 2**31
_MOST_CHOICES = 128
_MOST_SETTING = 4_096
_MOST_MODELS = 4
_LIGHT = frozenset({"stream", "stream_options", "metadata"})
_BUDGETS = ("thinking_budget", "thinking_token_budget")
_BUDGETS_INSIDE = (
    ("thinking", "budget_tokens"),
    ("reasoning", "max_tokens"),
    ("chat_template_kwargs", "thinking_budget"),
    ("chat_template_args", "thinking_budget"),
)
_LONG = re.compile(rb'"ttl"\s*:\s*"1h"')
# A plain letter that is written as an escape hides the words looked for here; pi writes none.
_HIDDEN = re.compile(rb"\\u00[2-7]")

Find = Callable[[str], Price | None]


class Unbounded(Exception):
    """The named part of a request may use any number of tokens."""


@dataclass(frozen=True, slots=True)
class OutputBound:
    """The limit for each of `choices` answers, and what it may be lowered to.

    `names` are the members that hold it; `is_limited`: the provider surely hears of it from the request as it came.
    """

    limit: int
    least: int
    choices: int
    names: tuple[str, ...]
    is_limited: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """What a call may use at most. `problem` names what in it is not bounded; the numbers then say nothing.

    `models` may answer, each for its own price; the first is the one asked for. `is_sure`: no other one can. `found` is
    what the request leads to beyond its own bytes.
    """

    tokens_in: int
    output: OutputBound
    writes: CacheWrites
    models: tuple[str, ...]
    trace: Trace | None = None
    problem: str | None = None
    is_sure: bool = True
    found: References = field(default_factory=References)

    def worst(self, find: Find) -> Worst:
        most, least = self.output.limit, self.output.least
        others = self.models[1:] if self.is_sure else None
        tokens, least_tokens = self.tokens(most), self.tokens(least)
        if self.problem is not None:
            return Worst(None, None, tokens, least_tokens, others)
        return Worst(self.micros(find, most), self.micros(find, least), tokens, least_tokens, others)

    def tokens(self, limit: int) -> int:
        """Tokens at most, in and out, with this limit for the output."""
        return (self.tokens_in + limit * self.output.choices) * len(self.models)

    def micros(self, find: Find, limit: int) -> int | None:
        """Micro-dollars at most with this limit for the output; None without a price."""
        total = 0
        for price in map(find, self.models):
            if price is None:
                return None
            made = limit * self.output.choices
            total += price.most(tokens_in=self.tokens_in, tokens_out=made, writes=self.writes)
        return total

    def covers(self, end: CallEnd, limit: int) -> bool:
        """False for a call that came to more than it could: its provider counts otherwise, or minds no limit."""
        asked = end.tokens_in + end.cache_read + end.cache_write
        return asked <= self.tokens_in and end.tokens_out <= limit * self.output.choices

    def granted(self, find: Find, opened: CallOpened) -> int | None:
        """The largest output limit that fits what the call may use; None where no cap says anything."""
        if opened.micros is None and opened.tokens is None:
            return None
        low, high = self.output.least, self.output.limit
        if self._fits(find, opened, high):
            return high
        while low < high:
            middle = (low + high + 1) // 2
            if self._fits(find, opened, middle):
                low = middle
            else:
                high = middle - 1
        return low

    def _fits(self, find: Find, opened: CallOpened, limit: int) -> bool:
        if opened.tokens is not None and self.tokens(limit) > opened.tokens:
            return False
        if opened.micros is None:
            return True
        micros = self.micros(find, limit)
        return micros is not None and micros <= opened.micros

    def edits(self, body: bytes, envelope: Envelope, granted: int | None) -> list[Edit]:
        """What to change in the request so that it asks for no more than was granted."""
        if granted is None or (granted >= self.output.limit and self.output.is_limited):
            return []
        return limit_edits(body, envelope, self.output.names, granted)


class RequestBounds:
    """Bounds requests, and learns from what providers count: see `prefixes`."""

    def __init__(self) -> None:
        self._prefixes = Prefixes()

    def of(
        self, run_id: int, facts: ProviderFacts, envelope: Envelope, body: bytes, *, around: str = ""
    ) -> Bound:
        """`around`: what the request says beside its body that may change what its input counts (beta headers)."""
        api, found = BY_NAME[facts.api], References()
        models: tuple[str, ...] = (envelope.model,)
        is_sure = False
        # All of it is read, whatever has no bound: what stands behind that may lead anywhere.
        tokens_in, trace = self._input(run_id, Reader(api, body, found), envelope, around)
        try:
            models = _models(body, envelope, found)
            is_sure = envelope.strange is None  # it could name further ones
            output = _output(api, body, envelope, facts)
        except (Unbounded, NotARequest) as problem:
            found.unbound(str(problem))
        if found.unbounded is not None:
            usual = facts.max_tokens or USUAL_OUTPUT
            names = api.limit_names(facts.name)[:1]
            asked = OutputBound(usual, usual, 1, names, is_limited=False)
            writes, problem_said = CacheWrites.LONG, found.unbounded
            return Bound(
                LARGEST_WINDOW, asked, writes, models, problem=problem_said, is_sure=is_sure, found=found
            )
        # Another model counts in its own way.
        kept = trace if len(models) == 1 else None
        return Bound(tokens_in, output, _cache_writes(api, body), models, kept, found=found)

    def known(self, run_id: int) -> Mapping[Trace, int]:
        """What was learned of this run's requests."""
        return self._prefixes.known(run_id)

    def remember(self, run_id: int, known: Mapping[Trace, int]) -> None:
        """Take over what another one has learned."""
        for trace, tokens in known.items():
            self._prefixes.learn(run_id, trace, tokens)

    def learn(self, run_id: int, bound: Bound, end: CallEnd) -> None:
        """A call ended: what the provider counted bounds those that go on from it."""
        if bound.trace is not None and end.measured and end.status == 200:
            self._prefixes.learn(run_id, bound.trace, end.tokens_in + end.cache_read + end.cache_write)

    def forget(self, run_id: int) -> None:
        self._prefixes.forget(run_id)

    def _input(
        self, run_id: int, reader: Reader, envelope: Envelope, around: str
    ) -> tuple[int, Trace | None]:
        """Tokens at most, and how to remember the request; they say nothing when what was found has no bound."""
        api, body, found = reader.api, reader.body, reader.found
        span = envelope.spans.get(api.conversation)
        if span is None or not reader.is_list(span):
            if not (reader.is_null(span) or reader.is_text(span)):
                found.refuse(f"{api.conversation} must be a list")
            _check_around(reader, envelope, envelope.spans)
            return OVERHEAD + _rest(api, body, envelope, span), None
        spans = _elements(reader, span)
        light = _LIGHT | {*api.limits, api.conversation}
        rest = [around.encode()] + [
            part
            for name, (start, end) in envelope.spans.items()
            if name not in light
            for part in (name.encode(), body[start:end])
        ]
        trace, match = self._prefixes.find(run_id, rest, body, spans)
        # What is the same as in a request that was learned from was read then, and leads nowhere.
        fresh = {name: at for name, at in envelope.spans.items() if match is None or name in light}
        _check_around(reader, envelope, fresh)
        added = spans[match.count :] if match else spans
        tokens = sum(_weigh(reader, element) for element in added)
        if match is not None:
            return match.tokens + match.marks + tokens + SLACK, trace
        # What may be cut out of one request may be read in the next.
        cut = envelope.spans.get("truncation")
        is_whole = cut is None or body[cut[0] : cut[1]] in (b"null", b'"disabled"')
        return OVERHEAD + _rest(api, body, envelope, span) + tokens, trace if is_whole else None


def _check_around(reader: Reader, envelope: Envelope, spans: Mapping[str, Span]) -> None:
    """Keep what beside the conversation leads elsewhere."""
    for name, at in envelope.others:
        try:
            reader.unknown(name, name[:MOST_SHOWN], at)
        except NotARequest as error:
            reader.found.refuse(f"{name[:MOST_SHOWN]} cannot be read: {error}")
    check_members(reader, spans)


def _weigh(reader: Reader, span: Span) -> int:
    """Tokens at most of one element of the conversation: a token is at least one byte. What has no bound is kept."""
    try:
        return reader.api.weigh(reader, span)
    except NotARequest as error:
        reader.found.refuse(f"{reader.api.conversation}, which cannot be read: {error}")
        return 0


def _cache_writes(api: WireApi, body: bytes) -> CacheWrites:
    """What the provider may write to its cache, at most: anything hidden counts as the dearest."""
    if _LONG.search(body) or _HIDDEN.search(body):
        return CacheWrites.LONG
    return CacheWrites.SHORT if b'"cache_control"' in body else api.cache_writes


def _output(api: WireApi, body: bytes, envelope: Envelope, facts: ProviderFacts) -> OutputBound:
    sure = api.limit_names(facts.name)
    asked = {
        name: limit for name in api.limits if (limit := _whole(body, envelope, name, MOST_OUTPUT)) is not None
    }
    heard = [name for name in sure if name in asked]
    # Where none is named that the provider surely hears of, the usual one is put in.
    names = tuple(asked) if heard else (*asked, sure[0])
    thinking = _thinking(body, envelope)
    # One that is told to think longer than it may answer may do so.
    limit = max(thinking, max(asked.values(), default=facts.max_tokens or USUAL_OUTPUT))
    choices = max(_whole(body, envelope, name, _MOST_CHOICES) or 1 for name in ("n", "best_of"))
    least = min(limit, max(LEAST_OUTPUT, thinking + LEAST_OUTPUT))
    return OutputBound(limit, least, choices, names, bool(heard))


def _whole(body: bytes, envelope: Envelope, name: str, most: int) -> int | None:
    return _number(value(body, envelope.spans.get(name), _MOST_SETTING), name, most)


def _number(said: Any, name: str, most: int) -> int | None:
    if said is None:
        return None
    if not isinstance(said, int) or isinstance(said, bool) or not 0 < said <= most:
        raise Unbounded(f"{name} as it is written")
    return said


def _thinking(body: bytes, envelope: Envelope) -> int:
    """Tokens that the model is told to think for."""
    budgets = [_whole(body, envelope, name, MOST_OUTPUT) or 0 for name in _BUDGETS]
    for name, member in _BUDGETS_INSIDE:
        setting = value(body, envelope.spans.get(name), _MOST_SETTING)
        said = setting.get(member) if isinstance(setting, dict) else None
        budgets.append(_number(said or None, f"{name}.{member}", MOST_OUTPUT) or 0)
    return max(budgets)


def _models(body: bytes, envelope: Envelope, found: References) -> tuple[str, ...]:
    """Those that may answer: the one asked for, and those that Anthropic asks after it when it refuses."""
    asked = value(body, envelope.spans.get("fallbacks"), _MOST_SETTING) or []
    others = [as_dict(entry) for entry in asked] if isinstance(asked, list) else [{"fallbacks": asked}]
    for entry in others:
        if entry.keys() != {"model"} or not isinstance(entry["model"], str):
            found.word("fallbacks", "fallbacks as they are written")
            found.addresses_in(asked)
            raise Unbounded("fallbacks as they are written")
    models = (envelope.model, *(entry["model"] for entry in others))
    if len(models) > _MOST_MODELS:
        raise Unbounded("fallbacks as they are written")
    # https://openrouter.ai/docs/features/web-search: such a name is the model with a search.
    if any(model.lower().endswith(":online") for model in models):
        found.word("web_search", "a model that searches")
    return models


def _rest(api: WireApi, body: bytes, envelope: Envelope, conversation: Span | None) -> int:
    """Tokens of all but the conversation's list: its bytes, and those that are written out again."""
    again = sum(end - start for name, (start, end) in envelope.spans.items() if name in api.schemas)
    is_list = conversation is not None and body[conversation[0] : conversation[0] + 1] == b"["
    listed = conversation[1] - conversation[0] if is_list and conversation is not None else 0
    return len(body) - listed + 2 * again


def _elements(reader: Reader, span: Span) -> list[Span]:
    spans: list[Span] = []
    try:
        for element in elements(reader.body, span):
            if len(spans) >= MOST_ELEMENTS:
                reader.found.refuse(f"{reader.api.conversation} has too many parts")
                break
            spans.append(element)
    except NotARequest as error:
        reader.found.refuse(f"{reader.api.conversation} cannot be read: {error}")
    return spans
