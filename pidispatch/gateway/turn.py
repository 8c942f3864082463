"""Take one call's turns at its provider: wait, send, say what came of it."""

from types import TracebackType
from typing import Self

from pidispatch.domain.lanes import Leave
from pidispatch.domain.pressure import Abandoned, End, Heard
from pidispatch.gateway.pressure import Asker, Pressure, Waiter
from pidispatch.gateway.refusal import Refusal
from pidispatch.gateway.upstream import Line


class Turn:
    """Use as a context manager around everything that is sent for one call.

    Its place in line is kept from turn to turn; a call whose probe was refused goes to the end, so that a request that
    is always refused does not keep the others from being tried.
    """

    def __init__(self, pressure: Pressure, asker: Asker, line: Line) -> None:
        self._pressure, self._asker, self._line = pressure, asker, line
        self._number, self._deadline = pressure.arrive()
        self._leave: Leave | None = None
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
        waiter = Waiter(self._number, self._asker)
        with self._line.waking(waiter.woken.set):
            self._leave = self._pressure.wait(
                waiter, deadline=self._deadline, given_up=lambda: self._line.is_cut
            )
        if self._leave is None and not self.is_given_up:
            self.last_refusal = self.last_refusal or self._pressure.last_refusal(self._asker)
        return self._leave is not None

    @property
    def is_given_up(self) -> bool:
        """Nobody is there any more to be told of a refusal."""
        return self._line.is_cut or self._pressure.is_stopped

    def refused(self, refusal: Refusal) -> None:
        """The provider is busy, and nothing of its answer went to the client."""
        self.last_refusal = refusal
        if self._leave is not None and self._leave.is_probe:
            self._number, _ = self._pressure.arrive()
        self._end(refusal.busy, refusal)

    def heard(self) -> None:
        """Any other answer has begun, or none will come; the slot is kept until the end."""
        if self._leave is not None:
            self._pressure.report(self._asker, self._leave, Heard())

    def _end(self, end: End, refusal: Refusal | None = None) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            self._pressure.report(self._asker, leave, end, refusal=refusal, over=True)
