"""What the real pi sends passes whole: bounded under a cap, leading nowhere, with its fields."""

import json

import pytest

from pidispatch.domain.providers.calls import ProviderFacts, Ticket
from pidispatch.domain.providers.wireapis import ANTHROPIC, OPENAI, RESPONSES
from pidispatch.entrypoints.scripted import SCENARIOS, usage_of
from pidispatch.entrypoints.scripted.wire_responses import responses_stream
from pidispatch.gateway.calls.bounding import RequestBounds
from pidispatch.gateway.calls.envelope import read_envelope
from pidispatch.gateway.calls.reach import Reach
from tests.runner import scripted
from tests.runner.conftest import gateway
from tests.runner.test_real_pi import engine, job, run_box

__all__ = ["engine", "gateway", "job"]

pytestmark = pytest.mark.docker
STEPS = SCENARIOS["happy"].steps


def answer(path, body):
    if not path.startswith("/v1/responses"):
        return scripted.answer(path, body)
    step = sum(item.get("type") == "function_call_output" for item in json.loads(body)["input"])
    message = STEPS[min(step, len(STEPS) - 1)]
    return b"".join(responses_stream("m", message, usage_of(step + 1, len(message.parts)), f"t{step}"))


@pytest.mark.parametrize("api", [ANTHROPIC, OPENAI, RESPONSES])
def test_every_request_of_a_run_is_of_known_shapes(engine, job, gateway, api):
    gateway.provider = answer

    code, output = run_box(engine, job, gateway, ("scripted", "any-model", api))

    assert code == 0, output
    sent = [body for path, _, body in gateway.requests if path.startswith("/v1")]
    assert len(sent) > 1
    facts = ProviderFacts(name="scripted", api=api, known_to_pi=False, credential=True)
    for body in sent:
        bound = RequestBounds().of(7, facts, read_envelope(body, api), body)
        assert bound.problem is None
        assert Reach().judge(Ticket(7, "local:7", 1, "scripted"), bound.found) is None
