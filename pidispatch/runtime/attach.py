"""Hear what a short-lived container says, byte for byte and in bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pidispatch.runtime.engine import Engine, translated
from pidispatch.runtime.logs import PIECE_BYTES, STDERR, STDOUT, FrameReader, raise_for_status

ERROR_BYTES = 4096

Frames = Iterator[tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class Said:
    """The first bytes of both streams; `cut` when stdout had more, `late` when it was not waited for."""

    out: bytes
    err: bytes
    cut: bool
    late: bool = False
    exit_code: int | None = None


@contextmanager
def attached(engine: Engine, container_id: str, *, silence: float) -> Iterator[Frames]:
    """Frames of a container that is not started yet, until it ends or says nothing for `silence` seconds.

    Unlike the log, which is JSON and turns what is not UTF-8 into replacement characters, this is exact.
    """
    with translated(f"listen to {container_id[:12]}"):
        api = engine.api
        response = api.post(
            f"{api.base_url}/v{api.api_version}/containers/{container_id}/attach",
            params={"stdout": "1", "stderr": "1", "stream": "1"},
            stream=True,
            timeout=(api.timeout, silence),
        )
        try:
            raise_for_status(response)
            reader = FrameReader()
            yield (frame for data in response.iter_content(PIECE_BYTES) for frame in reader.feed(data))
        finally:
            response.close()


def hear(frames: Frames, *, limit: int) -> Said:
    """Read to the end, or until stdout has more than `limit` bytes."""
    out, err = bytearray(), bytearray()
    for stream, piece in frames:
        if stream == STDOUT:
            out += piece
            if len(out) > limit:
                return Said(out=bytes(out[:limit]), err=bytes(err), cut=True)
        elif stream == STDERR:
            err += piece[: ERROR_BYTES - len(err)]
    return Said(out=bytes(out), err=bytes(err), cut=False)
