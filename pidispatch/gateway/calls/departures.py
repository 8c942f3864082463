"""Notice clients that go away while nobody reads from or writes to them."""

import contextlib
import os
import select
import socket
import threading
from collections.abc import Callable, Iterator

_GONE = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class Departures:
    """One thread that calls back when a watched peer closes; a call without it would run to its end, billed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[int, Callable[[], None]] = {}
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._thread = threading.Thread(target=self._run, name="departures", daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def watch(self, sock: socket.socket, gone: Callable[[], None]) -> Iterator[None]:
        """Call `gone` (quick, once) from another thread when the peer closes or half-closes."""
        fd = sock.fileno()
        with self._lock:
            self._watched[fd] = gone
            self._epoll.register(fd, _GONE | select.EPOLLONESHOT)
        try:
            yield
        finally:
            with self._lock:
                self._watched.pop(fd, None)
                self._epoll.unregister(fd)

    def close(self) -> None:
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._epoll.close()
        os.close(self._wake)

    def _run(self) -> None:
        while True:
            for fd, _ in self._epoll.poll():
                if fd == self._wake:
                    return
                with self._lock:
                    gone = self._watched.get(fd)
                    # The number may by now belong to another connection, so look again.
                    if gone is not None and _is_gone(fd):
                        del self._watched[fd]
                        gone()


def _is_gone(fd: int) -> bool:
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    return bool(poll.poll(0))
