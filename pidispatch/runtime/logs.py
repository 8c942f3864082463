"""Read a container's output from the engine in bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager

import docker
import docker.errors
import requests

STDOUT, STDERR, ENGINE_ERROR = 1, 2, 3
HEADER_BYTES = 8
PIECE_BYTES = 64 * 1024


class FrameReader:
    """Undo the engine's multiplexing: an 8-byte header (stream, length), then that many bytes, again and again.

    Pieces are handed on as they come, so a frame of any length needs no memory.
    """

    def __init__(self) -> None:
        self._header = bytearray()
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield (stream, piece) for everything that `data` completes; pieces are never empty."""
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
                at += len(piece)
                yield self._stream, piece
                continue
            wanted = HEADER_BYTES - len(self._header)
            self._header += data[at : at + wanted]
            at += wanted
            if len(self._header) == HEADER_BYTES:
                self._stream = self._header[0]
                self._left = int.from_bytes(self._header[4:])
                self._header.clear()


class Tail:
    """The last `limit` bytes of what was added, and how many there were in all."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept = bytearray()
        self.total = 0

    def add(self, piece: bytes) -> None:
        self.total += len(piece)
        self._kept += piece
        if len(self._kept) > 2 * self._limit:
            del self._kept[: len(self._kept) - self._limit]

    def bytes(self) -> bytes:
        return bytes(self._kept[-self._limit :]) if self._limit else b""


@contextmanager
def log_frames(
    api: docker.APIClient, container_id: str, *, tail: str = "all", follow: bool = False
) -> Iterator[Iterator[tuple[int, bytes]]]:
    """Stream (stream, piece) of what the engine kept. Raises docker's and requests' errors.

    Not `api.logs`: that drops the stream's number and switches the read time-out off, so that an engine
    which stopped answering would hold the worker's thread.
    """
    response = api.get(
        f"{api.base_url}/v{api.api_version}/containers/{container_id}/logs",
        params={"stdout": "1", "stderr": "1", "follow": str(int(follow)), "tail": tail},
        stream=True,
        timeout=(api.timeout, None if follow else api.timeout),
    )
    try:
        raise_for_status(response)
        reader = FrameReader()
        yield (frame for data in response.iter_content(PIECE_BYTES) for frame in reader.feed(data))
    finally:
        response.close()


def raise_for_status(response: requests.Response) -> None:
    """Raise what docker-py's own calls would raise for this answer."""
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        docker.errors.create_api_error_from_http_exception(error)
