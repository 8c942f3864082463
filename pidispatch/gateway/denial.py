"""Say to the box why a call may not be made, and what a person can do about it.

pi ends on a 402 and shows its message. It asks again where a message has words such as "timeout", "terminated" or a
number such as 500 in it (its own list), so that these texts have neither.
"""

from typing import Any

from pidispatch.domain.wireapis import ANTHROPIC

_GRANT = "`pidispatch grant` lets it go on from here as a new run"
_SAID = {
    "closed": "it is over or being stopped, or was never given its go",
    "stopped": "an operator stopped all model calls; `pidispatch resume` lets them through again",
    "model-not-allowed": "its trigger or the installation does not list this model among those allowed",
    "model-policy-unenforceable": "only listed models may answer it, and what it asks for may name others",
    "turn-cap": f"it has made as many model calls as it may; {_GRANT}",
    "token-cap": "it could pass the run's cap of tokens, which counts all that each call sends, cached or not;"
    f" {_GRANT}",
    "cost-cap": f"it could pass the run's cap of dollars; {_GRANT}",
    "cost-cap-unenforceable": "the run has a cap of dollars, and the model no known price: name it in the prices file",
}


def denial(api: str, reason: str, problem: str | None) -> dict[str, Any]:
    """An error body in the shape of this API. `problem` names what in the request is not bounded, if anything."""
    said = _SAID.get(reason, "it may not make it")
    if problem is not None and reason == "model-policy-unenforceable":
        said = f"{said}: {problem}. Ask without it"
    elif problem is not None and reason in {"token-cap", "cost-cap-unenforceable"}:
        said = f"the run has a cap, and what this asks for has no bound: {problem}. Ask without it"
    message = f"pidispatch: this run may not make this call ({reason}): {said}"
    if api == ANTHROPIC:
        return {"type": "error", "error": {"type": "budget_exceeded", "message": message}}
    return {"error": {"message": message, "type": "budget_exceeded", "param": None, "code": reason}}
