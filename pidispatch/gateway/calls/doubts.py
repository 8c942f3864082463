"""Say once for a run and a model that what its provider reports cannot be true."""

import threading
from collections import OrderedDict

import structlog

from pidispatch.domain.providers.calls import Ticket
from pidispatch.domain.providers.rates import Doubt

MOST_KEPT = 4_096

log = structlog.get_logger(__name__)

_SAID = {
    Doubt.INPUT_TOO_SMALL: "the provider counted fewer tokens in than the request has",
    Doubt.OUTPUT_TOO_SMALL: "the provider counted fewer tokens out than the answer has",
    Doubt.ABOVE_THE_WINDOW: "the provider counted more tokens than the model can read",
}


class Doubts:
    """Remembers what was said; any thread. What is forgotten is said again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._said: OrderedDict[tuple[int, str], None] = OrderedDict()

    def tell(self, ticket: Ticket, model: str, doubt: Doubt) -> None:
        key = (ticket.run_id, model)
        with self._lock:
            if key in self._said:
                return
            self._said[key] = None
            if len(self._said) > MOST_KEPT:
                self._said.popitem(last=False)
        log.warning(
            "gateway.usage_not_believed",
            run=ticket.public_id,
            model=model,
            why=str(doubt),
            problem=f"{_SAID[doubt]}: its calls count what they may have come to at most",
        )
