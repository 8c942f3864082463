"""Take one call's turns at its provider's key: wait, send, say what came of it."""

from types import TracebackType
from typing import Self

from pidispatch.domain.pressure import Abandoned, End, Heard, Pass
from pidispatch.gateway.pressure import Pressure, Waiter
from pidispatch.gateway.refusal import Refusal
from pidispatch.gateway.upstream import Line


class Turn:
    """Use as a context manager around everything that is sent for one call.

    Its place in line is kept from turn to turn; a call whose probe was refused goes to the end, so that a request that
    is always refused does not keep the others from being tried.
    """

    def __init__(self, pressure: Pressure, provider: str, slots: int | None, line: Line) -> None:
        self._pressure, self._provider, self._slots, self._line = pressure, provider, slots, line
        self._number, self._deadline = pressure.arrive()
        self._leave: Pass | None = None
        self.last_refusal: Refusal | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After `heard` this only frees the slot.
        self._end(Abandoned())

    def take(self) -> bool:
        """Wait for leave to send. False: the client has gone, all are stopped, or it will not come in time."""
        waiter = Waiter(self._number, self._slots)
        with self._line.waking(waiter.woken.set):
            self._leave = self._pressure.wait(
                self._provider, waiter, deadline=self._deadline, given_up=lambda: self._line.is_cut
            )
        if self._leave is None and not self.is_given_up:
            self.last_refusal = self.last_refusal or self._pressure.last_refusal(self._provider)
        return self._leave is not None

    @property
    def is_given_up(self) -> bool:
        """Nobody is there any more to be told of a refusal."""
        return self._line.is_cut or self._pressure.is_stopped

    def refused(self, refusal: Refusal) -> None:
        """The provider is busy, and nothing of its answer went to the client."""
        self.last_refusal = refusal
        if self._leave is not None and self._leave.probe:
            self._number, _ = self._pressure.arrive()
        self._end(refusal.busy, refusal)

    def heard(self) -> None:
        """Any other answer has begun, or none will come; the slot is kept until the end."""
        if self._leave is not None:
            self._pressure.report(self._provider, self._leave, Heard())

    def _end(self, end: End, refusal: Refusal | None = None) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            self._pressure.report(self._provider, leave, end, refusal=refusal, over=True)
