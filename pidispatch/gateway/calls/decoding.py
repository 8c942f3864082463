"""Undo an answer's content coding, which was not asked for, before anybody looks into it."""

import json
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from pidispatch.gateway.calls.upstream import ProviderAnswer, UpstreamFailed
from pidispatch.gateway.http.http1 import problem

PIECE = 64 * 1024
# A stream of small events shrinks thirtyfold at most; what grows more, once it is long, is made to fill memories.
MOST_GROWTH = 200
FREE_SIZE = 16 * 1024 * 1024
_OF_THE_CODING = frozenset({"content-encoding", "content-length"})


class Unpacker(Protocol):
    """zlib's decompression object."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...
    def flush(self) -> bytes: ...


def decoded(answer: ProviderAnswer) -> ProviderAnswer:
    """The answer in plain bytes. Raises UpstreamFailed where nobody here can read it, also from its `chunks`.

    A refusal in an unknown coding keeps its status, and loses its body.
    """
    codings = [
        word.strip().lower()
        for name, value in answer.fields
        if name == "content-encoding"
        for word in value.split(",")
    ]
    codings = [coding for coding in codings if coding not in ("", "identity")]
    if not codings:
        return answer
    fields = tuple(field for field in answer.fields if field[0] not in _OF_THE_CODING)
    start = _CODINGS.get(codings[0]) if len(codings) == 1 else None
    if start is not None:
        return ProviderAnswer(answer.status, fields, _unpacked(answer.chunks, start))
    if 200 <= answer.status < 300:
        raise UpstreamFailed("its answer has a content coding that was not asked for", sent=True)
    said = problem(
        "api_error", "pidispatch: the provider's refusal has a content coding that was not asked for"
    )
    kept = tuple(field for field in fields if field[0] != "content-type")
    return ProviderAnswer(
        answer.status, (*kept, ("content-type", "application/json")), iter((json.dumps(said).encode(),))
    )


def _unpacked(chunks: Iterator[bytes], start: Callable[[bytes], Unpacker]) -> Iterator[bytes]:
    unpacker: Unpacker | None = None
    waiting, taken, made = b"", 0, 0
    for chunk in chunks:
        taken += len(chunk)
        waiting += chunk
        if unpacker is None and len(waiting) < 2:
            continue  # its first two bytes tell what it is
        while waiting:
            unpacker = start(waiting) if unpacker is None or unpacker.eof else unpacker
            piece, waiting = _step(unpacker, waiting)
            made += len(piece)
            if made > FREE_SIZE and made > MOST_GROWTH * taken:
                raise UpstreamFailed("its answer grows without end when it is unpacked", sent=True)
            if piece:
                yield piece
    if unpacker is not None and (last := unpacker.flush()):
        yield last
    if taken and (unpacker is None or not unpacker.eof):
        raise UpstreamFailed("its packed answer breaks off", sent=True)


def _step(unpacker: Unpacker, data: bytes) -> tuple[bytes, bytes]:
    """One bounded piece, and what is left to be read."""
    try:
        piece = unpacker.decompress(data, PIECE)
        while not piece and unpacker.unconsumed_tail:
            piece = unpacker.decompress(unpacker.unconsumed_tail, PIECE)
    except zlib.error as error:
        raise UpstreamFailed("its packed answer cannot be unpacked", sent=True) from error
    return piece, unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail


def _gzip(_beginning: bytes) -> Unpacker:
    return zlib.decompressobj(16 + zlib.MAX_WBITS)


def _deflate(beginning: bytes) -> Unpacker:
    """With zlib's head, as the standard says (RFC 9110), or without, as some servers send it."""
    first, second = beginning[0], (beginning[1:2] or b"\0")[0]
    has_head = first & 0x0F == zlib.DEFLATED and (first << 8 | second) % 31 == 0
    return zlib.decompressobj(zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS)


_CODINGS: dict[str, Callable[[bytes], Unpacker]] = {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate}
