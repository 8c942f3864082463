"""Open a model call where a test knows that it may be made."""

from typing import Any

from pidispatch.ports import CallOpened


def opened(ledger: Any, run_id: int, attempt: int = 1, **call: Any) -> int:
    """The id of the call that the ledger opened."""
    asked = {"provider": "scripted", "model": "happy", "api": "openai-completions", **call}
    answer = ledger.open_call(run_id, attempt, **asked)
    assert isinstance(answer, CallOpened), answer
    return answer.call_id
