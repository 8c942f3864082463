"""A provider that streams chat completions as fast or as slowly as it is told, in a process of its own."""

import asyncio
import contextlib
import json
from multiprocessing.connection import Connection

CONTENT = "word " * 8
USAGE = {"prompt_tokens": 1000, "completion_tokens": 100}
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def serve(pipe: Connection) -> None:
    """Say the port, and serve until the pipe closes."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(pipe))


async def _serve(pipe: Connection) -> None:
    server = await asyncio.start_server(_connection, "127.0.0.1", 0)
    pipe.send(server.sockets[0].getsockname()[1])
    with contextlib.suppress(EOFError):
        await asyncio.to_thread(pipe.recv)
    server.close()


async def _connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            size = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            asked = json.loads(await reader.readexactly(int(size.split(b":")[1])))
            await _stream(writer, asked["metadata"]["chunks"], asked["metadata"]["pause"])
    writer.close()


async def _stream(writer: asyncio.StreamWriter, chunks: int, pause: float) -> None:
    """`chunks` pieces of text, one every `pause` seconds by the clock; then the usage."""
    writer.write(HEAD)
    loop = asyncio.get_running_loop()
    began = loop.time()
    piece = _event({"choices": [{"index": 0, "delta": {"content": CONTENT}}]})
    for number in range(chunks):
        if pause and (left := began + number * pause - loop.time()) > 0:
            await asyncio.sleep(left)
        writer.write(piece)
        await writer.drain()
    writer.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
    writer.write(_event({"choices": [], "usage": USAGE}))
    writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    await writer.drain()


def _event(message: dict[str, object]) -> bytes:
    data = b"data: " + json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", **message}).encode()
    return b"%x\r\n%b\n\n\r\n" % (len(data) + 2, data)
