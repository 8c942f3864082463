"""Pass one model call through to its provider: paid for first, streamed as it arrives, settled after."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import structlog

from pidispatch.domain.providers.calls import CallEnd, CallOpened, CallRefused, Cost, Ticket
from pidispatch.domain.providers.rates import CostClass, Price
from pidispatch.domain.text.masking import Keys, Mask
from pidispatch.domain.text.redaction import Redactor
from pidispatch.errors import DatabaseUnavailable
from pidispatch.gateway.calls.bounding import LARGEST_WINDOW, OVERHEAD, Bound, RequestBounds
from pidispatch.gateway.calls.costing import dearest_of, most_of
from pidispatch.gateway.calls.decoding import decoded
from pidispatch.gateway.calls.departures import Departures
from pidispatch.gateway.calls.doubts import Doubts
from pidispatch.gateway.calls.envelope import Envelope, NotARequest, edited, usage_edits
from pidispatch.gateway.calls.fields import Beside, answered, beside
from pidispatch.gateway.calls.judges import Judges
from pidispatch.gateway.calls.judging import Question
from pidispatch.gateway.calls.metering import Meter, Most
from pidispatch.gateway.calls.pressure import Asker, Pressure, Turn
from pidispatch.gateway.calls.reach import Barred, Reach, denial
from pidispatch.gateway.calls.refusal import OURS, look
from pidispatch.gateway.calls.settling import Settler, hold
from pidispatch.gateway.calls.upstream import Line, ProviderAnswer, Upstream, UpstreamFailed
from pidispatch.gateway.http.http1 import Departed, Fields, Head, Wire, problem
from pidispatch.gateway.prices.table import NO_PRICES, Prices
from pidispatch.gateway.providers import Provider
from pidispatch.ports import CallLedger

HOLD_SECONDS = 60.0

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Call:
    """One call under way."""

    ticket: Ticket
    provider: Provider
    envelope: Envelope
    beside: Beside
    body: bytes
    wire: Wire
    meter: Meter
    bound: Bound
    prices: Mapping[str, Price | None]
    keys: Keys
    limit: int | None = None  # for the output, where a cap was set
    line: Line = field(default_factory=Line)


class Lines:
    """The calls of one door that are under way, so that closing it can cut them all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Line] = set()
        self._cut = False

    @contextlib.contextmanager
    def track(self, line: Line) -> Iterator[None]:
        with self._lock:
            self._open.add(line)
            if self._cut:
                line.cut()
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(line)

    def cut(self) -> None:
        with self._lock:
            self._cut = True
            for line in self._open:
                line.cut()

    def cut_open(self) -> int:
        """Cut those that are under way now; later ones go on. Returns how many were not cut before."""
        with self._lock:
            going = [line for line in self._open if not line.is_cut]
            for line in going:
                line.cut()
            return len(going)


class Proxy:
    """Serves the /v1 paths of every door."""

    def __init__(
        self,
        ledger: CallLedger,
        settler: Settler,
        departures: Departures,
        *,
        pressure: Pressure,
        redactor: Redactor,
        keys: Keys,
        bounds: RequestBounds | None = None,
        reach: Reach | None = None,
        prices: Prices = NO_PRICES,
        upstream: Upstream | None = None,
        hold_seconds: float = HOLD_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger, self._settler, self._departures = ledger, settler, departures
        self._bounds, self._prices = bounds or RequestBounds(), prices
        self._reach = reach or Reach()
        self._pressure, self._redactor, self._keys = pressure, redactor, keys
        self._upstream = upstream or Upstream()
        self._hold_seconds, self._clock = hold_seconds, clock
        self._doubts, self._judges = Doubts(), Judges()

    def prepare(self) -> None:
        """Start what takes long to start."""
        self._judges.prepare()

    def close(self) -> None:
        self._judges.close()
        self._upstream.close()

    def forward(
        self, ticket: Ticket, provider: Provider, lines: Lines, wire: Wire, *, head: Head, body: bytes
    ) -> None:
        """Serve one request whose path fits the provider's API."""
        run_id = ticket.run_id
        passed = beside(head, provider.api, self._reach.tools)
        known = self._bounds.known(run_id)
        asked = Question(run_id, provider.facts, provider.models, known, passed.meaning)
        try:
            judged = self._judges.judge(asked, body)
        except NotARequest as refusal:
            wire.answer(400, problem("invalid_request_error", f"pidispatch: {refusal}"))
            return
        # Names are kept in rows; the body, in which the provider reads them, stays as it is.
        envelope = replace(judged.envelope, model=self._redactor.text(judged.envelope.model))
        bound = replace(judged.bound, models=tuple(map(self._redactor.text, judged.bound.models)))
        prices = {model: self._prices.find(provider.facts.name, model) for model in bound.models}
        most = _most(provider, envelope.model, bound, bound.output.limit, prices.values())
        meter = Meter(provider.facts.api, most, clock=self._clock)
        call = Call(ticket, provider, envelope, passed, body, wire, meter, bound, prices, self._keys)
        with lines.track(call.line), self._departures.watch(wire.sock, call.line.cut):
            call_id = self._open(call)
            if call_id is None:
                return
            barred = self._reach.judge(ticket, bound.found)
            if barred is None:
                self._run(call, call_id)
            else:
                self._bar(call, call_id, barred)

    def _open(self, call: Call) -> int | None:
        """Write the call's row; the refusal is answered here, and nothing was sent upstream."""
        ticket, facts, bound = call.ticket, call.provider.facts, call.bound
        call_of = {"provider": facts.name, "model": call.envelope.model, "api": facts.api}
        worst = bound.worst(call.prices.get)
        ask: Callable[[], CallOpened | CallRefused] = lambda: self._ledger.open_call(  # noqa: E731
            ticket.run_id, ticket.attempt, **call_of, worst=worst
        )
        try:
            answer = hold(ask, seconds=self._hold_seconds, given_up=lambda: call.line.is_cut)
        except DatabaseUnavailable:
            call.wire.answer(503, problem("overloaded_error", "pidispatch: the database does not answer"))
            return None
        if isinstance(answer, CallRefused):
            log.info("gateway.call_refused", run=ticket.public_id, reason=answer.reason)
            call.wire.answer(402, denial(facts.api, answer.reason, bound.problem))
            return None
        call.limit = bound.granted(call.prices.get, answer)
        if call.limit is not None:
            call.meter.most = replace(call.meter.most, tokens_out=call.limit * bound.output.choices)
        return answer.call_id

    def _bar(self, call: Call, call_id: int, barred: Barred) -> None:
        """The run's caps have nothing against the call, but it leads where the run may not go: it is kept as unsent."""
        self._settle(call, call_id, CallEnd(barred.status, "error"))
        log.info("gateway.call_barred", run=call.ticket.public_id, call=call_id, status=barred.status)
        call.wire.answer(barred.status, barred.body(call.provider.facts.api))

    def _run(self, call: Call, call_id: int) -> None:
        end: CallEnd | None = None
        try:
            end = self._exchange(call)
        finally:
            # Also after a fault of our own: what was seen until then is what the call used.
            end = end or call.meter.end(aborted=True)
            self._settle(call, call_id, end)

    def _settle(self, call: Call, call_id: int, end: CallEnd) -> None:
        end, cost = self._cost(call, end)
        self._settler.settle(call.ticket.run_id, call_id, end, cost)
        self._bounds.learn(call.ticket.run_id, call.bound, end)
        said = {"run": call.ticket.public_id, "call": call_id, "tokens_out": end.tokens_out}
        if call.limit is not None and not call.bound.covers(end, call.limit):
            log.error("gateway.bound_passed", **said, tokens_in=end.tokens_in, bound=call.bound.tokens_in)
        log.info(
            "gateway.call",
            **said,
            status=end.status,
            stop=end.stop_reason,
            tokens_in=end.tokens_in,
            measured=end.measured,
            micros=cost.micros,
        )

    def _cost(self, call: Call, end: CallEnd) -> tuple[CallEnd, Cost]:
        """What the call came to. One that was not measured came to the most of each model that may have answered."""
        if end.measured:
            return end, dearest_of(call.prices.values(), end)
        is_limited = call.limit is not None or call.bound.output.is_limited
        sure = CostClass.ASSUMED if end.doubt is None and is_limited else CostClass.ESTIMATE
        cost = most_of(list(call.prices.values()), end, call.bound.writes, sure)
        if call.bound.problem is not None:
            cost = replace(cost, micros=None)
        if end.doubt is not None:
            self._doubts.tell(call.ticket, call.envelope.model, end.doubt)
        answers = len(call.bound.models)
        return replace(end, tokens_in=end.tokens_in * answers, tokens_out=end.tokens_out * answers), cost

    def _exchange(self, call: Call) -> CallEnd:
        """Send when it is the call's turn, and again when the provider was busy: that was neither billed nor seen."""
        provider = call.provider
        asker = Asker(provider.facts.name, call.envelope.model, call.ticket.run_id, provider.slots)
        with Turn(self._pressure, asker, call.line) as turn:
            try:
                while turn.take():
                    end = self._send(call, turn)
                    if end is not None:
                        return end
                return _turn_away(call, turn)
            except Departed:
                call.wire.keep_alive = False
                return call.meter.end(aborted=True)

    def _send(self, call: Call, turn: Turn) -> CallEnd | None:
        """One try; None when the provider is busy."""
        started = False
        call.meter.sending()
        try:
            asked = (_url(call), _asked(call), _body(call))
            with self._upstream.post(*asked, call.line, call.provider.patience) as answer:
                whole, refusal = look(decoded(answer), call.envelope.model, is_stream=call.envelope.stream)
                if refusal is not None:
                    turn.refused(refusal)
                    return None
                turn.heard()
                started = True
                _relay(call, whole)
            return call.meter.end(aborted=call.line.is_cut)
        except UpstreamFailed as failure:
            if not call.line.is_cut:
                turn.heard()
            end = call.meter.end(aborted=call.line.is_cut, sent=failure.sent)
            self._say_failed(call, failure, started=started)
            return end

    def _say_failed(self, call: Call, failure: UpstreamFailed, *, started: bool) -> None:
        log.warning(
            "gateway.provider_failed", run=call.ticket.public_id, problem=str(failure), cut=call.line.is_cut
        )
        if started:
            # The answer's head is out: only a broken connection says that its end is missing.
            call.wire.keep_alive = False
            call.wire.hang_up()
            return
        with contextlib.suppress(Departed):
            call.wire.answer(
                502, problem("api_error", f"pidispatch: the provider did not answer ({failure})")
            )


def _turn_away(call: Call, turn: Turn) -> CallEnd:
    """The call was held in vain: what the provider last said of it goes to whoever still listens."""
    refusal = turn.last_refusal
    if turn.is_given_up:
        if refusal is not None:
            call.meter.begin(refusal.status, None, asked_stream=False)
        call.wire.keep_alive = False
        call.wire.hang_up()
        return call.meter.end(aborted=True, sent=False)
    _relay(call, (refusal or OURS).answer())
    return call.meter.end()


def _relay(call: Call, answer: ProviderAnswer) -> None:
    """Hand on the answer byte by byte, in the pieces in which it comes, without the keys that it may hold."""
    types = [value for name, value in answer.fields if name == "content-type"]
    call.meter.begin(answer.status, types[0] if types else None, asked_stream=call.envelope.stream)
    fields = call.keys.fields(answered(answer.fields))
    sized = any(name == "content-length" for name, _ in fields)
    bare = answer.status in {204, 304}
    if not (sized or bare):
        fields = (*fields, ("transfer-encoding", "chunked"))
    wire = call.wire
    wire.start(answer.status, fields)
    write = wire.write if sized else wire.write_chunk
    mask = Mask(call.keys, lines=call.meter.is_stream)
    for chunk in answer.chunks:
        call.meter.feed(chunk)
        write(mask.feed(chunk))
    write(mask.end())
    call.meter.finish()
    if not (sized or bare):
        wire.end_chunks()


def _url(call: Call) -> str:
    query = call.beside.query
    return f"{call.provider.url}?{query}" if query else call.provider.url


def _asked(call: Call) -> Fields:
    return (*call.beside.fields, ("accept-encoding", "identity"), *call.provider.credentials())


def _body(call: Call) -> bytes:
    """As it came, but for what is put in: the wish for usage, and the output's limit where there is a cap."""
    edits = call.bound.edits(call.body, call.envelope, call.limit)
    if call.envelope.stream and call.provider.takes_options and call.provider.api.asks_for_usage:
        edits += usage_edits(call.body, call.envelope)
    return edited(call.body, edits) if edits else call.body


def _most(provider: Provider, model: str, bound: Bound, limit: int, prices: Iterable[Price | None]) -> Most:
    figures = provider.models.get(model)
    known = figures.context_window if figures is not None else None
    windows = [known or (price.window if price is not None else None) for price in prices]
    return Most(
        tokens_in=bound.tokens_in,
        tokens_out=limit * bound.output.choices,
        choices=bound.output.choices,
        text_bytes=1 if bound.problem is not None else max(1, bound.tokens_in - OVERHEAD),
        window=max(window or LARGEST_WINDOW for window in windows),
        rate=provider.rate,
        tells_input=provider.tells_input and len(bound.models) == 1,
    )
