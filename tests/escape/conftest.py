"""One real box that tries every way out, behind a gateway whose internet is on this machine."""

import json
import os
import shutil
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pidispatch.domain.box.sandbox import GATE_DIR, JOB_DIR, MIB, WORKSPACE_DIR, Mount
from pidispatch.domain.egress.allowlist import Allowlist, EgressUse, parse_allowlist
from pidispatch.domain.providers.calls import Ticket
from pidispatch.gateway.egress.log import EgressLog
from pidispatch.gateway.egress.tunnel import Egress
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Providers
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from tests.gateway.fakes import FakeLedger, FakeTickets, Switch
from tests.support.boxes import SOMEBODY, a_box, an_installation, image_or_skip
from tests.support.image import IMAGE
from tests.support.outside import PUBLIC, Internet, Server, echo
from tests.support.patience import eventually

HERE = Path(__file__).parent
# All of them are listed, so that what stops them is what they turn out to be.
LIST = b"""allowed.example
forge.example
localhost
to-private.example
to-metadata.example
to-mapped.example
rebinding.example
"""
NAMES = {
    "allowed.example": [[PUBLIC]],
    "forge.example": [[PUBLIC]],
    "localhost": [["127.0.0.1", "::1"]],
    "to-private.example": [["192.168.7.7"]],
    "to-metadata.example": [["169.254.169.254"]],
    "to-mapped.example": [["::ffff:10.1.2.3"]],
    "rebinding.example": [[PUBLIC], ["127.0.0.1"]],
}


class Kept:
    """Evidence in memory."""

    def __init__(self) -> None:
        self.uses: list[EgressUse] = []

    def add(self, run_id: int, uses: Any) -> None:
        self.uses += uses


@dataclass
class World:
    """A gateway with the doors of two runs; `asked` goes to the box of the first."""

    run_dir: Path
    internet: Internet
    kept: Kept
    gateway: Gateway

    @property
    def control(self) -> Path:
        return self.run_dir / "gateway.sock"

    def door(self, run: int) -> Path:
        return self.run_dir / "g" / str(run)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.close()


@pytest.fixture(scope="module")
def boxes(engine: Engine) -> DockerBoxes:
    image_or_skip(engine)
    return DockerBoxes(engine)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    run_dir = Path(tempfile.mkdtemp(prefix="esc"))
    server = Server(echo)
    internet, kept = Internet(NAMES, server.address), Kept()
    allowed: Allowlist = parse_allowlist(LIST, "list")
    switch = Switch()
    tickets = FakeTickets(switch)
    for run in (7, 8):
        tickets.add(Ticket(run, f"local:{run}", 1, "scripted"), f"{run:064x}")
    gateway = Gateway(
        run_dir,
        run_dir / "secret",
        "here",
        tickets=tickets,
        ledger=FakeLedger(switch, tickets),
        providers=Providers(keys={}, upstreams={}),
        egress=Egress(lambda: allowed, outside=internet.outside(), evidence=EgressLog(kept)),
        stop_seconds=0.2,
        drain_seconds=0.2,
    )
    gateway.start()
    yield World(run_dir, internet, kept, gateway)
    gateway.stop()
    server.close()
    shutil.rmtree(run_dir, ignore_errors=True)


@pytest.fixture(scope="module")
def ask(boxes: DockerBoxes, world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Let a box try what is asked, by name; returns what came of each."""
    with an_installation(boxes) as installation:

        def run(
            asked: dict[str, Any], files: dict[str, bytes] | None = None, mounts: tuple[Mount, ...] = ()
        ) -> dict[str, Any]:
            root = tmp_path_factory.mktemp("box")
            root.chmod(0o755)
            job, workspace = root / "job", root / "workspace"
            job.mkdir()
            workspace.mkdir()
            os.chown(workspace, SOMEBODY, SOMEBODY)
            (job / "asked.json").write_text(json.dumps(asked))
            (job / "probe.py").write_bytes((HERE / "probe.py").read_bytes())
            for name, content in (files or {}).items():
                (job / name).write_bytes(content)
            spec = a_box(
                installation,
                IMAGE,
                "python3",
                "/job/probe.py",
                memory=1024 * MIB,
                env={"HOME": "/home/pi", "PATH": "/usr/local/bin:/usr/bin:/bin", "PI_OFFLINE": "1"},
                working_dir=WORKSPACE_DIR,
                mounts=(
                    Mount(str(job), JOB_DIR, read_only=True),
                    Mount(str(workspace), WORKSPACE_DIR, read_only=False),
                    Mount(str(world.door(7)), GATE_DIR, read_only=True),
                    *mounts,
                ),
            )
            return _output(boxes, spec)

        yield run


def _output(boxes: DockerBoxes, spec: Any) -> dict[str, Any]:
    container = boxes.create(spec)
    boxes.start(container)

    def look() -> str | None:
        said = boxes.tail(container, 4 * MIB).decode()
        return said if "=== end" in said or "Traceback" in said else None

    said = eventually(look, within=120)
    assert said, boxes.tail(container, MIB)
    assert "=== end" in said, said
    boxes.remove(container)
    return dict(json.loads(line) for line in said.splitlines() if line.startswith("["))


@dataclass
class Forge:
    """A TLS server that answers for forge.example: files of a directory, with a certificate of its own."""

    root: Path
    certificate: bytes
    address: tuple[str, int]
    asked: list[str]


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=forge.example",
         "-addext", "subjectAltName=DNS:forge.example", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    root = tmp_path / "www"
    root.mkdir()
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            asked.append(str(args[0]))

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(root)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Forge(root, certificate.read_bytes(), ("127.0.0.1", server.server_address[1]), asked)
    server.shutdown()
    server.server_close()
