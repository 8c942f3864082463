"""Let an actor start only what the gate admitted; on any error, nothing."""

from contextvars import ContextVar

import dramatiq
import structlog
from dramatiq.broker import MessageProxy
from dramatiq.middleware import Middleware, SkipMessage

from pidispatch.domain.runs.run import Claim
from pidispatch.ports import Gate
from pidispatch.queue.bells import START

log = structlog.get_logger(__name__)
_admitted: ContextVar[Claim | None] = ContextVar("admitted", default=None)


class Admission(Middleware):
    """The last middleware. It holds nothing that an after-hook would have to release: dramatiq swallows errors there.

    dramatiq also swallows what a before-hook raises, unless it is `SkipMessage`, and then runs the actor: so every
    error is turned into a skip. The message is acknowledged and forgotten; the row stays and is rung for again.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._closed = False

    def close(self) -> None:
        """Admit nothing more in this process: it is about to end. Its broker must be deaf by then."""
        self._closed = True

    def before_process_message(self, broker: dramatiq.Broker, message: MessageProxy) -> None:
        _admitted.set(None)
        if message.actor_name != START:
            return
        if self._closed:
            _ring_again(broker, message)
            raise SkipMessage("this worker ends, nothing starts")
        try:
            claim = self._gate.admit()
        except Exception as error:
            log.warning("admission_failed", error=type(error).__name__, problem=str(error))
            raise SkipMessage("admission failed, nothing starts") from error
        if claim is None:
            raise SkipMessage("nothing may start now")
        _admitted.set(claim)


def _ring_again(broker: dramatiq.Broker, message: MessageProxy) -> None:
    """A bell that was taken by a worker which ends is for the next one; it would be missed until it is rung again."""
    try:
        broker.enqueue(message.copy())
    except Exception as error:  # noqa: BLE001 - raising here would start the actor; the reconcilers ring too
        log.warning("bell_not_passed_on", problem=str(error))


def take_claim() -> Claim:
    """The claim that this thread's message was admitted with. It can be taken once."""
    claim = _admitted.get()
    if claim is None:
        raise LookupError("no run was admitted for this message")
    _admitted.set(None)
    return claim
