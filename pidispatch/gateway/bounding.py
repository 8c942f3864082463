"""Bound what one model call may use, before it is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pidispatch.domain.rates import CacheWrites, Price
from pidispatch.gateway.dialects import DIALECTS, Dialect
from pidispatch.gateway.envelope import Edit, Envelope, limit_edits
from pidispatch.gateway.prefixes import Prefixes, Trace
from pidispatch.gateway.scanning import NotARequest, Span, elements, value
from pidispatch.gateway.weighing import Unbounded, check_tools, weigh
from pidispatch.gateway.writes import cache_writes
from pidispatch.ports import CallEnd, CallOpened, ProviderFacts, Worst

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
_LIGHT = frozenset({"stream", "stream_options", "metadata"})

Find = Callable[[str], Price | None]


@dataclass(frozen=True, slots=True)
class Output:
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

    `models` may answer, each for its own price; the first is the one asked for. `is_sure`: no other one can.
    """

    tokens_in: int
    output: Output
    writes: CacheWrites
    models: tuple[str, ...]
    trace: Trace | None = None
    problem: str | None = None
    is_sure: bool = True

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


class Bounds:
    """Bounds requests, and learns from what providers count: see `prefixes`."""

    def __init__(self) -> None:
        self._prefixes = Prefixes()

    def of(
        self, run_id: int, facts: ProviderFacts, envelope: Envelope, body: bytes, *, around: str = ""
    ) -> Bound:
        """`around`: what the request says beside its body that may change what its input counts (beta headers)."""
        dialect = DIALECTS[facts.api]
        models: tuple[str, ...] = (envelope.model,)
        is_sure = False
        try:
            models = _models(body, envelope)
            is_sure = envelope.strange is None  # it could name further ones
            output = _output(dialect, body, envelope, facts)
            tokens_in, trace = self._input(run_id, facts.api, envelope, body, around)
        except (Unbounded, NotARequest) as problem:
            usual = facts.max_tokens or USUAL_OUTPUT
            names = dialect.limit_names(facts.name)[:1]
            asked = Output(usual, usual, 1, names, is_limited=False)
            return Bound(
                LARGEST_WINDOW, asked, CacheWrites.LONG, models, problem=str(problem), is_sure=is_sure
            )
        # Another model counts in its own way.
        kept = trace if len(models) == 1 else None
        return Bound(tokens_in, output, cache_writes(facts.api, body), models, kept)

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
        self, run_id: int, api: str, envelope: Envelope, body: bytes, around: str
    ) -> tuple[int, Trace | None]:
        dialect = DIALECTS[api]
        _check_members(dialect, body, envelope)
        span = envelope.spans.get(dialect.conversation)
        if span is None or body[span[0] : span[0] + 1] != b"[":
            return OVERHEAD + _rest(dialect, body, envelope, span), None
        spans = _elements(dialect, body, span)
        light = _LIGHT | {*dialect.limits, dialect.conversation}
        rest = [around.encode()] + [
            part
            for name, (start, end) in envelope.spans.items()
            if name not in light
            for part in (name.encode(), body[start:end])
        ]
        trace, match = self._prefixes.find(run_id, rest, body, spans)
        added = spans[match.count :] if match else spans
        tokens = sum(weigh(api, dialect, body, element) for element in added)
        if match is not None:
            return match.tokens + match.marks + tokens + SLACK, trace
        # What may be cut out of one request may be read in the next.
        truncates = value(body, envelope.spans.get("truncation"), _MOST_SETTING) not in (None, "disabled")
        return OVERHEAD + _rest(dialect, body, envelope, span) + tokens, None if truncates else trace


def _output(dialect: Dialect, body: bytes, envelope: Envelope, facts: ProviderFacts) -> Output:
    sure = dialect.limit_names(facts.name)
    asked = {
        name: limit
        for name in dialect.limits
        if (limit := _whole(body, envelope, name, MOST_OUTPUT)) is not None
    }
    heard = [name for name in sure if name in asked]
    # Where none is named that the provider surely hears of, the usual one is put in.
    names = tuple(asked) if heard else (*asked, sure[0])
    limit = max(asked.values(), default=facts.max_tokens or USUAL_OUTPUT)
    choices = max(_whole(body, envelope, name, _MOST_CHOICES) or 1 for name in ("n", "best_of"))
    least = min(limit, max(LEAST_OUTPUT, _thinking(body, envelope) + LEAST_OUTPUT))
    return Output(limit, least, choices, names, bool(heard))


def _whole(body: bytes, envelope: Envelope, name: str, most: int) -> int | None:
    number = value(body, envelope.spans.get(name), _MOST_SETTING)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= most:
        raise Unbounded(f"{name} as it is written")
    return number


def _thinking(body: bytes, envelope: Envelope) -> int:
    """Tokens that the model is told to think for: the output's limit must stay above it."""
    budget = 0
    for name, member in (("thinking", "budget_tokens"), ("reasoning", "max_tokens")):
        setting = value(body, envelope.spans.get(name), _MOST_SETTING)
        asked = setting.get(member) if isinstance(setting, dict) else None
        if isinstance(asked, int):
            budget = max(budget, asked)
    return budget


def _models(body: bytes, envelope: Envelope) -> tuple[str, ...]:
    """Those that may answer: the one asked for, and those that Anthropic asks after it when it refuses."""
    asked = value(body, envelope.spans.get("fallbacks"), _MOST_SETTING) or []
    others = [entry.get("model") for entry in asked if isinstance(entry, dict) and set(entry) == {"model"}]
    if not isinstance(asked, list) or len(others) != len(asked) or len(others) > 3:
        raise Unbounded("fallbacks as they are written")
    if not all(isinstance(name, str) for name in others):
        raise Unbounded("fallbacks as they are written")
    return (envelope.model, *(str(name) for name in others))


def _check_members(dialect: Dialect, body: bytes, envelope: Envelope) -> None:
    """Raise Unbounded for a member that makes the cost so."""
    if envelope.strange is not None:
        raise Unbounded(envelope.strange[:64])
    for name, allowed in dialect.only.items():
        # A number that equals false is no false.
        if name in envelope.spans and not any(
            type(said) is type(found) and said == found
            for said in allowed
            for found in (value(body, envelope.spans[name], _MOST_SETTING),)
        ):
            raise Unbounded(name)
    check_tools(dialect, body, envelope.spans.get("tools"))


def _rest(dialect: Dialect, body: bytes, envelope: Envelope, conversation: Span | None) -> int:
    """Tokens of all but the conversation's list: its bytes, and those that are written out again."""
    again = sum(end - start for name, (start, end) in envelope.spans.items() if name in dialect.schemas)
    listed = (
        0
        if conversation is None or body[conversation[0] : conversation[0] + 1] != b"["
        else (conversation[1] - conversation[0])
    )
    return len(body) - listed + 2 * again


def _elements(dialect: Dialect, body: bytes, span: Span) -> list[Span]:
    spans: list[Span] = []
    for element in elements(body, span):
        if len(spans) >= MOST_ELEMENTS:
            raise Unbounded(f"{dialect.conversation}, which has too many parts")
        spans.append(element)
    return spans
