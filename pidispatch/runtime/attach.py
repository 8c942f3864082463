"""Speak with a short-lived container: its input, and what it says, byte for byte and in bounded memory."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pidispatch.runtime.engine import Engine, translated
from pidispatch.runtime.logs import PIECE_BYTES, STDERR, STDOUT, FrameReader

ERROR_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Said:
    """The first bytes of both streams; `cut` when stdout had more, `late` when it was not waited for."""

    out: bytes
    err: bytes
    cut: bool
    late: bool = False
    exit_code: int | None = None


class Attached:
    """The streams of one container. `tell` before `hear`: what it says stays in the engine meanwhile."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def tell(self, data: bytes) -> None:
        """Give it its input. Raises OSError."""
        self._connection.sendall(data)

    def hear(self, *, limit: int) -> Said:
        """Read to the end, or until stdout has more than `limit` bytes. Raises OSError."""
        out, err = bytearray(), bytearray()
        for stream, piece in self._frames():
            if stream == STDOUT:
                out += piece
                if len(out) > limit:
                    return Said(out=bytes(out[:limit]), err=bytes(err), cut=True)
            elif stream == STDERR:
                err += piece[: ERROR_BYTES - len(err)]
        return Said(out=bytes(out), err=bytes(err), cut=False)

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        reader = FrameReader()
        while data := self._connection.recv(PIECE_BYTES):
            yield from reader.feed(data)


@contextmanager
def attached(engine: Engine, container_id: str, *, silence: float) -> Iterator[Attached]:
    """A container that is not started yet, until it ends or says nothing for `silence` seconds.

    Unlike the log, which is JSON and turns what is not UTF-8 into replacement characters, this is exact.
    """
    with translated(f"speak with {container_id[:12]}"):
        streams = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        raw = engine.api.attach_socket(container_id, params=streams)
        connection: socket.socket = getattr(raw, "_sock", raw)  # docker-py hands out the reader around it
        try:
            connection.settimeout(silence)
            yield Attached(connection)
        finally:
            raw._response.close()  # noqa: SLF001 - docker-py keeps it there for this
            raw.close()
