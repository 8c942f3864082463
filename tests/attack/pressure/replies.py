"""A provider that answers each request with the next of the given bytes, or by a function of the model asked for."""

import json
import socket
import threading


class Replies:
    """`answers`: raw bytes, one after the other, the last one for ever. `by_model` goes before them."""

    def __init__(self, *answers, by_model=None):
        self.answers, self.by_model = list(answers), by_model
        self.asked: list[str] = []
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        with sock:
            data = b""
            while b"\r\n\r\n" not in data:
                piece = sock.recv(1 << 20)
                if not piece:
                    return
                data += piece
            head, _, body = data.partition(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            while len(body) < size:
                body += sock.recv(1 << 20)
            model = json.loads(body)["model"]
            with self._lock:
                self.asked.append(model)
                if self.by_model is not None:
                    answer = self.by_model(model)
                else:
                    answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            sock.sendall(answer)

    def close(self):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def whole(status, body, *fields):
    data = json.dumps(body).encode()
    more = "".join(f"{each}\r\n" for each in fields).encode()
    return (
        b"HTTP/1.1 %b X\r\ncontent-type: application/json\r\nconnection: close\r\n%bcontent-length: %d\r\n\r\n%b"
        % (str(status).encode(), more, len(data), data)
    )


def stream(*events, ended=True):
    """An event stream; a text is a line as it is, anything else the data of an event."""
    parts = [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    ]
    for event in events:
        data = event.encode() if isinstance(event, str) else b"data: " + json.dumps(event).encode()
        parts.append(b"%x\r\n%b\n\n\r\n" % (len(data) + 2, data))
    return b"".join(parts) + (b"0\r\n\r\n" if ended else b"")


def said(text="hello"):
    """A good answer of chat completions, as a stream."""
    chunk = {"id": "c", "object": "chat.completion.chunk"}
    return (
        {**chunk, "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        {**chunk, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}]},
        {**chunk, "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 2}},
        "data: [DONE]",
    )
