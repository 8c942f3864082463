"""Ask for many streams at once, and time each: to its first byte, and to its end."""

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

Connect = Callable[[int], socket.socket]


@dataclass(frozen=True)
class Timed:
    """Seconds from the request's last byte to the answer's first piece of text, and to the answer's end."""

    first: float
    whole: float


def request(words: int, chunks: int, pause: float) -> bytes:
    """One step of a conversation of so many words, much as pi sends it."""
    messages = [
        {"role": "user" if number % 2 == 0 else "assistant", "content": "lorem ipsum " * 50}
        for number in range(max(1, words // 100) | 1)
    ]
    told = {"chunks": chunks, "pause": pause}
    body = json.dumps(
        {"model": "m", "stream": True, "stream_options": {"include_usage": True}, "max_completion_tokens": 8000,
         "max_tokens": 8000, "metadata": told, "messages": messages}
    ).encode()  # fmt: skip
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    return head + b"content-length: %d\r\n\r\n" % len(body) + body


class Streams:
    """Connections that stay open, as a client's do; each asks once a round, all in the same moment."""

    def __init__(self, connect: Connect, count: int) -> None:
        self._socks = [connect(number) for number in range(count)]

    def measure(self, asked: bytes) -> list[Timed]:
        timed: list[Timed | None] = [None] * len(self._socks)
        gate = threading.Barrier(len(self._socks))

        def one(number: int) -> None:
            gate.wait()
            timed[number] = _time(self._socks[number], asked)

        threads = [threading.Thread(target=one, args=(number,)) for number in range(len(self._socks))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return [each for each in timed if each is not None]

    def close(self) -> None:
        for sock in self._socks:
            sock.close()


def _time(sock: socket.socket, asked: bytes) -> Timed:
    sock.sendall(asked)
    began = time.perf_counter()
    seen, first = b"", 0.0
    while not seen.endswith(b"0\r\n\r\n"):
        piece = sock.recv(1 << 18)
        if not piece:
            raise RuntimeError(f"the connection ended after {seen[-300:]!r}")
        seen = (seen + piece)[-4096:]
        if not first and b"data: " in seen:
            first = time.perf_counter()
    if not first:
        raise RuntimeError(f"no stream came: {seen[:300]!r}")
    return Timed(first - began, time.perf_counter() - began)
