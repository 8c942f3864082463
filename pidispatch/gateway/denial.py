"""Say to the box why a call may not be made, and what a person can do about it.

pi ends on a 402 and shows its message. It asks again where a message has words such as "timeout", "terminated" or a
number such as 500 in it (its own list), so that these texts have neither.
"""

from typing import Any

from pidispatch.domain import words
from pidispatch.domain.wireapis import ANTHROPIC
from pidispatch.domain.words import Use, meaning


def denial(api: str, reason: str, problem: str | None) -> dict[str, Any]:
    """An error body in the shape of this API. `problem` names what in the request is not bounded, if anything."""
    said = meaning(reason, Use.CALL) or "it may not make it"
    if problem is not None and reason == words.MODEL_POLICY_UNENFORCEABLE:
        said = f"{said}: {problem}. Ask without it"
    elif problem is not None and reason in {words.TOKEN_CAP, words.COST_CAP_UNENFORCEABLE}:
        said = f"the run has a cap, and what this asks for has no bound: {problem}. Ask without it"
    message = f"pidispatch: this run may not make this call ({reason}): {said}"
    if api == ANTHROPIC:
        return {"type": "error", "error": {"type": "budget_exceeded", "message": message}}
    return {"error": {"message": message, "type": "budget_exceeded", "param": None, "code": reason}}
