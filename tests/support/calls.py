"""Open a model call where a test knows that it may be made, and settle it at a price."""

from typing import Any

from pidispatch.domain.providers.calls import CallOpened, Cost, Worst
from pidispatch.domain.providers.rates import CostClass


def opened(ledger: Any, run_id: int, attempt: int = 1, **call: Any) -> int:
    """The id of the call that the ledger opened."""
    asked = {"provider": "scripted", "model": "happy", "api": "openai-completions", **call}
    answer = ledger.open_call(run_id, attempt, **asked)
    assert isinstance(answer, CallOpened), answer
    return answer.call_id


def worst(micros: int | None, tokens: int = 0, *, least: int | None = None, least_tokens: int = 0) -> Worst:
    """A call that may come to so much; it cannot be made shorter unless `least` or `least_tokens` say so."""
    return Worst(micros, micros if least is None else least, tokens, least_tokens or tokens)


def cost(micros: int | None, cost_class: CostClass = CostClass.METERED) -> Cost | None:
    """What a call came to; None without a price."""
    return None if micros is None else Cost(micros, cost_class, "test-1")
