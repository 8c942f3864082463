"""Run pi in RPC mode and read its JSON lines, with bounds on time and on what is kept."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

LINE_BYTES = 16 * 1024 * 1024
_CHUNK = 256 * 1024
_LAST_WORDS = 4000
_CLOSE_SECONDS = 3.0
_KILL_SECONDS = 2.0
_LOOK_SECONDS = 0.5
_LAST_OUTPUT_SECONDS = 2.0

# Most of the bytes, and nothing that is folded: not even parsed. agent_end repeats every message.
_SKIPPED = tuple(
    f'{{"type":"{kind}"'.encode()
    for kind in ("message_update", "message_start", "tool_execution_update", "turn_end", "agent_end")
)


class DeadlinePassed(Exception):
    """The time given to `records` is over."""


class Pi:
    """One pi process in a session of its own. `deadline` (time.monotonic) bounds `records`; it may be moved."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cwd: str) -> None:
        self._process = subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        self.deadline = time.monotonic() + 3600.0
        self._last_words = b""
        self._listener = threading.Thread(target=self._copy_stderr, daemon=True)
        self._listener.start()

    def send(self, *commands: dict[str, Any]) -> None:
        """In a thread: pi may be slow to read a prompt of megabytes, and the deadline must not wait for it."""
        raw = b"".join(json.dumps(command).encode() + b"\n" for command in commands)
        threading.Thread(target=self._write, args=(raw,), daemon=True).start()

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield parsed records until pi's output ends, or pi has. Raises DeadlinePassed."""
        for raw in split_lines(self._chunks()):
            record = parse_record(raw)
            if record is not None:
                yield record

    def _chunks(self) -> Iterator[bytes]:
        source = self._process.stdout.fileno()  # type: ignore[union-attr]
        poll = select.poll()
        poll.register(source, select.POLLIN)
        gone_since = None
        while True:
            now = time.monotonic()
            if now >= self.deadline:
                raise DeadlinePassed
            # The end of the output may never come: a tool of pi's can hold it open, and write to it.
            if gone_since is None and self._process.poll() is not None:
                gone_since = now
            if gone_since is not None and now - gone_since > _LAST_OUTPUT_SECONDS:
                return
            if not poll.poll(min(self.deadline - now, _LOOK_SECONDS) * 1000):
                if gone_since is not None:
                    return
                continue
            chunk = os.read(source, _CHUNK)
            if not chunk:
                return
            yield chunk

    def last_words(self) -> str:
        """The end of what it said on stderr, after it has ended."""
        self._listener.join(0.5)
        return self._last_words.decode(errors="replace").strip()

    def close(self) -> None:
        """Close its input, which asks it to exit; then end it and its tools for sure."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        self._end(None, _CLOSE_SECONDS)

    def terminate(self) -> None:
        """SIGTERM, so that pi keeps its session; then the end for sure."""
        self._end(signal.SIGTERM, _KILL_SECONDS)

    def kill(self) -> None:
        self._end(signal.SIGKILL, _KILL_SECONDS)

    def _end(self, first: signal.Signals | None, seconds: float) -> None:
        if first is not None:
            self._signal(first)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, number)

    def _write(self, raw: bytes) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._process.stdin.write(raw)  # type: ignore[union-attr]
            self._process.stdin.flush()  # type: ignore[union-attr]

    def _copy_stderr(self) -> None:
        assert self._process.stderr is not None
        source = self._process.stderr.fileno()
        with contextlib.suppress(OSError):
            while chunk := os.read(source, _CHUNK):
                self._last_words = (self._last_words + chunk)[-_LAST_WORDS:]
                os.write(2, chunk)


def split_lines(chunks: Iterator[bytes], limit: int = LINE_BYTES) -> Iterator[bytes]:
    """Split on LF only; a line over `limit` bytes is dropped whole, and a last one without LF too."""
    kept: list[bytes] = []
    size = 0
    for chunk in chunks:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            if size + end - start <= limit:
                yield b"".join([*kept, chunk[start:end]])
            kept, size, start = [], 0, end + 1
        size += len(chunk) - start
        if size <= limit:
            kept.append(chunk[start:])
        else:
            kept = []


def parse_record(raw: bytes) -> dict[str, Any] | None:
    """None for what is skipped, and for what is no JSON object: an agent can write to this pipe too."""
    if raw.startswith(_SKIPPED):
        return None
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
