"""A tiny gateway on a unix socket, and the runner started as a process of its own."""

import json
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

HERE = Path(__file__).resolve().parent
IMAGE = HERE.parents[1] / "image"
STREAMS = HERE / "streams"
KEY = "0123456789abcdef" * 4

_START = (
    "import sys, os, json; sys.path.insert(0, sys.argv[1]); from runner.main import Places, run; "
    "places = json.loads(sys.argv[2]); places['pi'] = tuple(places['pi']); "
    "os._exit(run(os.environ, Places(**places)))"
)
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/home/pi",
    "PI_PROVIDER": "scripted",
    "PI_MODEL": "happy",
    "PI_MAX_TURNS": "20",
    "PI_JOB_ID": "pi-job-0123abcd-7-1",
    "PI_DISPATCH_ATTEMPT": "1",
    "PI_DISPATCH_DEADLINE": "600",
    "PI_CODING_AGENT_DIR": "/agent",
}

REFUSAL = {
    "error": {"type": "budget_exceeded", "message": "pidispatch: this run may not make this call (cost-cap)"}
}


class FakeGateway:
    """Answers /go, /report and /budget from lists (the last entry repeats); keeps every request.

    An answer is (status, body) or None: hang up without a word. Other paths go to `provider`: (path, body) to
    the bytes of an event stream.
    """

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="gate-")
        self.path = f"{self.directory}/s"
        self.go = [(200, {"go": True, "key": KEY})]
        self.report = [(204, None)]
        self.budget = [(404, None)]
        self.budget_asked = 0
        self.refuse_after = None  # calls of the provider until each is refused as the real gateway does
        self.requests = []
        self.provider = lambda _path, body: json.dumps({"echo": len(body)}).encode()

    def __enter__(self):
        self.open()
        return self

    def __exit__(self, *_):
        self.shut()
        shutil.rmtree(self.directory, ignore_errors=True)

    def open(self):
        gateway = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_POST(self):
                gateway._answer(self)

            def do_GET(self):
                gateway.budget_asked += 1
                gateway._give(self, gateway.budget)

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

            def handle_error(self, *args):
                pass

        self.server = Server(self.path, Handler)
        # As in a box: any uid inside may come through.
        Path(self.directory).chmod(0o711)
        Path(self.path).chmod(0o666)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def shut(self):
        if Path(self.path).exists():
            self.server.shutdown()
            self.server.server_close()
            Path(self.path).unlink()

    def paths(self):
        return [path for path, _, _ in self.requests]

    def body(self, path):
        return next(json.loads(body) for found, _, body in self.requests if found == path)

    def _answer(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.requests.append((handler.path, dict(handler.headers), body))
        answers = {"/go": self.go, "/report": self.report}.get(handler.path)
        if answers is None and self.refuse_after is not None:
            self.refuse_after -= 1
            if self.refuse_after < 0:
                self._send(handler, 402, _bytes(REFUSAL))
                return
        if answers is None:
            self._send(handler, 200, self.provider(handler.path, body))
            return
        self._give(handler, answers)

    def _give(self, handler, answers):
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        handler.close_connection = True
        if answer is not None:
            self._send(handler, answer[0], _bytes(answer[1]))

    def _send(self, handler, status, raw):
        handler.close_connection = True
        handler.send_response(status)
        handler.send_header("Content-Type", "text/event-stream")
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)


def _bytes(body):
    return body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()


class Box:
    """A runner process around the fake pi. `record` is what that pi was given, once it was started."""

    def __init__(
        self, tmp_path, gateway, *, stream="happy", mode="normal", env=None, prompt=b"do it", **places
    ):
        self.record_path = tmp_path / "record.json"
        (tmp_path / "job").mkdir(exist_ok=True)
        (tmp_path / "job/prompt.md").write_bytes(prompt)
        (tmp_path / "workspace").mkdir(exist_ok=True)
        pi = [sys.executable, "-I", "-S", str(HERE / "fake_pi.py")]
        pi += [str(STREAMS / f"{stream}.jsonl"), str(self.record_path), mode]
        given = {
            "pi": pi,
            "job": str(tmp_path / "job"),
            "session": str(tmp_path / "session/current.jsonl"),
            "cwd": str(tmp_path / "workspace"),
            "port": 0,
            "cache": "/nonexistent",
            "go_seconds": 5.0,
            **places,
        }
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START, str(IMAGE), json.dumps(given)],
            env={**ENV, "PI_DISPATCH_GATE": gateway.path, **(env or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def end(self, seconds=20):
        """Wait; returns (exit code, exit line as an object)."""
        self.output, self.errors = self.process.communicate(timeout=seconds)
        lines = [line for line in self.output.split(b"\n") if line.startswith(b'{"event":"exit"')]
        assert len(lines) == 1, (self.output[-2000:], self.errors[-2000:])
        line = json.loads(lines[0])
        assert line["code"] == self.process.returncode
        return self.process.returncode, line

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    @property
    def record(self):
        return json.loads(self.record_path.read_text())

    @property
    def pi_was_started(self):
        return self.record_path.exists()


def stream_records(name):
    return [
        json.loads(line) for line in (STREAMS / f"{name}.jsonl").read_bytes().split(b"\n") if line.strip()
    ]


def fold(name):
    """What a whole stream adds up to."""
    from runner.fold import START, step

    folded = START
    for record in stream_records(name):
        folded = step(folded, record)
    return folded
