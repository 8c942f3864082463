"""Hold the first model call in its answer, as long as a test wants."""

import threading


class Pace:
    """What a scripted provider calls before each piece of a stream."""

    def __init__(self) -> None:
        self._go = threading.Event()
        self._go.set()
        self.reached = threading.Event()

    def __call__(self, piece: int) -> None:
        if piece == 2 and not self._go.is_set():
            self.reached.set()
            self._go.wait(120)

    def hold(self) -> None:
        self.reached.clear()
        self._go.clear()

    def let_go(self) -> None:
        self._go.set()
