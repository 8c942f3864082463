"""Whatever is asked, however the provider reports and wherever its answer ends: no call counts less than its bill."""

import json
import socket
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from pidispatch.domain.masking import Keys
from pidispatch.domain.rates import Price, Rates, Rating
from pidispatch.domain.redaction import Redactor
from pidispatch.gateway.departures import Departures
from pidispatch.gateway.http1 import Head, Wire
from pidispatch.gateway.pressure import Pressure
from pidispatch.gateway.providers import Providers
from pidispatch.gateway.proxy import Lines, Proxy
from pidispatch.gateway.settling import Settler
from pidispatch.ports import Ticket
from tests.attack.meter.billing import Behaviour, BillingProvider
from tests.gateway.fakes import FakeCaps, FakeLedger, FakeTickets, Switch
from tests.support.scale import scaled

CASES = scaled(300, nightly=10_000)
LOW, HIGH = Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000, 100), Rates(6_000_000, 22_500_000, 600_000, 7_500_000, 12_000_000, 100)  # fmt: skip
PRICE = Price(Rating.PRICED, ((0, LOW), (20_000, HIGH)), "test 1", window=2_000_000)
# minimax speaks the messages API, and is not Anthropic.
NAMES = ("scripted", "openai", "anthropic", "minimax")
PATHS = {"scripted": "/v1/chat/completions", "openai": "/v1/responses"}
REPORTS = {
    "scripted": ["exact", "none", "zeros", "zeros-after", "huge", "floats", "running", "choice", "before"],
    "openai": ["exact", "none", "zeros", "huge", "floats"],
    "anthropic": ["exact", "none", "zeros-after", "floats"],
    "minimax": ["exact", "none", "zeros", "zeros-after", "huge", "floats", "guess", "split"],
}
KEYS = {f"{name.upper()}_API_KEY": "sk-of-the-host-0123456789" for name in NAMES}
ALL = Providers(keys=KEYS, upstreams={"scripted": "http://127.0.0.1:9/v1"})


class OnePrice:
    def find(self, provider, model):
        return PRICE


class Bench:
    """One run with a cap at the real proxy, before a provider of our own."""

    def __init__(self, departures, provider, *, width, cap):
        self.provider, self.upstream = provider, BillingProvider(PRICE, width=width)
        tickets = FakeTickets(Switch())
        self.ticket = Ticket(7, "local-7", 1, provider.facts.name)
        tickets.add(self.ticket, "c" * 64)
        run = tickets.runs[7]
        run.go_given, run.caps = True, FakeCaps(cost_cap_micros=cap)
        self.ledger = FakeLedger(tickets.switch, tickets)
        self.proxy = Proxy(
            self.ledger,
            Settler(self.ledger),
            departures,
            pressure=Pressure(),
            redactor=Redactor(),
            keys=Keys(),
            prices=OnePrice(),
            upstream=self.upstream,
            clock=lambda: self.upstream.now,
        )

    def call(self, asked, behaviour):
        """The call, and what its provider billed; None for one that was refused."""
        self.upstream.behaviour, before, made = behaviour, self.upstream.bill, len(self.ledger.calls)
        body = json.dumps(asked).encode()
        path = PATHS.get(self.provider.facts.name, "/v1/messages")
        ours, theirs = socket.socketpair()
        with ours, theirs:
            head = Head("POST", path, "", (), len(body), keep_alive=True)
            self.proxy.forward(self.ticket, self.provider, Lines(), Wire(ours), head=head, body=body)
        billed = self.upstream.bill - before
        return (self.ledger.calls[-1], billed) if len(self.ledger.calls) > made else None


@st.composite
def behaviours(draw, name, rate):
    return Behaviour(
        share=draw(st.sampled_from([0.0, 0.01, 0.5, 1.0])),
        shown=draw(st.sampled_from([0.0, 0.3, 1.0])),
        cached=draw(st.sampled_from([0.0, 0.5, 0.97])),
        report=draw(st.sampled_from(REPORTS[name])),
        cut=draw(st.sampled_from([None, None, "client", "provider", "timeout", "connect"])),
        cut_at=draw(st.integers(0, 14)),
        coding=draw(st.sampled_from([None, None, None, "gzip", "deflate", "br"])),
        status=draw(st.sampled_from([200] * 8 + [504, 524, 500, 400])),
        rate=rate,
        seconds=draw(st.sampled_from([0.0, 0.01, 2.0])),
    )


@st.composite
def requests(draw, name, history):
    text = draw(st.sampled_from(["aA1!", "é", "🙂", "\\", '"', "\n", "word "])) * draw(st.integers(1, 900))
    content = [{"type": "input_text" if name == "openai" else "text", "text": text}]
    if name in {"anthropic", "minimax"} and draw(st.booleans()):
        content[0]["cache_control"] = {"type": "ephemeral"}
    history.append({"role": "user", "content": content if draw(st.booleans()) else text})
    asked = {"model": "m", "stream": draw(st.booleans())}
    asked["input" if name == "openai" else "messages"] = list(history)
    limit = draw(st.sampled_from([None, 16, 700, 5_000, 200_000]))
    if limit is not None:
        asked["max_output_tokens" if name == "openai" else "max_tokens"] = limit
    if name == "scripted" and draw(st.integers(0, 4)) == 0:
        asked["n"] = draw(st.integers(2, 4))
    return asked


@pytest.fixture(scope="module")
def departures():
    departures = Departures()
    yield departures
    departures.close()


@pytest.mark.timeout(4 * 3600 if CASES > 300 else 1200)
@settings(max_examples=CASES, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_call_counts_at_least_its_bill_and_at_most_its_hold_and_a_run_at_most_its_cap(departures, data):
    name = data.draw(st.sampled_from(NAMES))
    rate = data.draw(st.sampled_from([None, None, 50, 2_000]))
    cap = data.draw(st.sampled_from([30_000, 400_000, 5_000_000, 100_000_000]))
    provider = replace(ALL.find(name), rate=rate)
    bench = Bench(departures, provider, width=data.draw(st.integers(0, 7)), cap=cap)
    history = []

    for _ in range(data.draw(st.integers(1, 3))):
        behaviour = data.draw(behaviours(name, rate))
        done = bench.call(data.draw(requests(name, history)), behaviour)
        if done is None:
            event("refused")
            continue
        call, billed = done
        event(f"{'measured' if call.end.measured else 'assumed'}, cut: {behaviour.cut is not None}")
        assert billed <= call.micros <= call.held_micros, (behaviour, call)
        if call.end.measured and call.end.status == 200:
            assert call.micros == billed
        if (
            behaviour.cut is None
            and behaviour.status == 200
            and behaviour.report == "exact"
            and behaviour.coding != "br"
        ):
            assert call.end.measured
        assert call.state == ("settled" if call.end.measured else "assumed")

    assert bench.upstream.bill <= sum(call.micros for call in bench.ledger.calls) <= cap
