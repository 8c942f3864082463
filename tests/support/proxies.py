"""Stand between a client and the Docker engine's socket, and cut what goes through."""

import contextlib
import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def engine_socket() -> str:
    """The engine's own socket, where DOCKER_HOST names one."""
    return os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")


class CuttingProxy:
    """Hands bytes on in both directions. `cut_all` drops every connection that is open now; after
    `cut_answers(place, times, after)` so many answers to requests for `place` end after `after` bytes of them."""

    def __init__(self, path: Path, engine: str) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._place, self._times, self._after = b"", 0, 0
        self.cut = 0
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_answers(self, place: str, *, times: int, after: int) -> None:
        self._place, self._times, self._after = place.encode(), times, after

    def cut_all(self) -> int:
        with self._lock:
            found = list(self._open)
        for each in found:
            _hang_up(each)
        return len(found)

    def close(self) -> None:
        _hang_up(self._listener)
        self._listener.close()
        self.cut_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        engine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with client, engine, self._known(client, engine):
            engine.connect(self._engine)
            left: list[int | None] = [None]  # bytes of an answer that may still pass
            upward = threading.Thread(target=self._ask, args=(client, engine, left), daemon=True)
            upward.start()
            self._answer(engine, client, left)
            _hang_up(client)
            _hang_up(engine)
            upward.join()

    @contextmanager
    def _known(self, *ends: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.update(ends)
        try:
            yield
        finally:
            with self._lock:
                self._open.difference_update(ends)

    def _ask(self, client: socket.socket, engine: socket.socket, left: list[int | None]) -> None:
        with contextlib.suppress(OSError):
            while asked := client.recv(65536):
                if self._times > 0 and self._place in asked:
                    self._times -= 1
                    left[0] = self._after
                engine.sendall(asked)
        _hang_up(engine)

    def _answer(self, engine: socket.socket, client: socket.socket, left: list[int | None]) -> None:
        with contextlib.suppress(OSError):
            while answer := engine.recv(65536):
                if left[0] is not None:
                    answer = answer[: left[0]]
                    left[0] -= len(answer)
                client.sendall(answer)
                if left[0] == 0:
                    self.cut += 1
                    return


def _hang_up(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting_proxy() -> Iterator[tuple[CuttingProxy, str]]:
    """A proxy in front of the machine's engine, and what DOCKER_HOST would be."""
    folder = Path(tempfile.mkdtemp(prefix="pd-", dir="/tmp"))
    proxy = CuttingProxy(folder / "s", engine_socket())
    try:
        yield proxy, f"unix://{folder}/s"
    finally:
        proxy.close()
        shutil.rmtree(folder, ignore_errors=True)
