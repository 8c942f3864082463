"""Measure how long each step of one act takes."""

from collections.abc import Callable


class Laps:
    """A stopwatch. `clock` tells seconds that never run backwards; a step's time counts from the one before it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self._steps: dict[str, float] = {}

    def lap(self, step: str) -> None:
        """End a step; a step that comes again is added up."""
        now = self._clock()
        self._steps[step] = self._steps.get(step, 0.0) + now - self._last
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        return {step: round(seconds * 1000, 1) for step, seconds in self._steps.items()}
