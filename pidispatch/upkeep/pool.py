"""A few threads to work beside a loop, which never hold up the end of the process."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future


class DaemonPool:
    """Like `ThreadPoolExecutor`, which the interpreter waits for at its end: a stop may take ten seconds.

    There are as many threads as were ever busy at the same time, at most `count`.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._asked: queue.SimpleQueue[tuple[Future[None], Callable[[], None]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._open = 0  # works that were asked for and have not ended

    def submit(self, work: Callable[[], None]) -> Future[None]:
        future: Future[None] = Future()
        with self._lock:
            self._open += 1
            missing = len(self._threads) < min(self._open, self._count)
            if missing:
                thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._threads.append(thread)
        self._asked.put((future, work))
        if missing:
            thread.start()
        return future

    def let_go(self) -> None:
        """Each thread ends after what it has in hand."""
        for _ in self._threads:
            self._asked.put(None)

    def _serve(self) -> None:
        while (asked := self._asked.get()) is not None:
            future, work = asked
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever asks the future
                self._done()
                future.set_exception(error)
            else:
                self._done()
                future.set_result(None)

    def _done(self) -> None:
        with self._lock:
            self._open -= 1
