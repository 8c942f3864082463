import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pidispatch.domain.providers.calls import Ticket
from pidispatch.entrypoints.scripted import ScriptedProvider
from pidispatch.gateway.client import ControlDoors
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Providers
from tests.gateway.fakes import FakeLedger, FakeTickets, Switch
from tests.gateway.parts import CONTAINER, KEY, ManualUpstream, UnixClient


@dataclass
class House:
    """A gateway over fakes in its own run directory, and the ways in."""

    run_dir: Path
    gateway: Gateway
    tickets: FakeTickets
    ledger: FakeLedger
    switch: Switch
    clients: list[UnixClient] = field(default_factory=list)
    gives_go: bool = True  # most tests are about what comes after it

    @property
    def doors(self) -> ControlDoors:
        return ControlDoors(self.run_dir / "gateway.sock")

    def open(self, run_id: int = 7, provider: str = "scripted", attempt: int = 1) -> Path:
        """Add a run, open its door, and return the socket."""
        self.tickets.add(Ticket(run_id, f"local:{run_id}", attempt, provider), CONTAINER)
        self.tickets.runs[run_id].go_given = self.gives_go
        return Path(self.doors.open(run_id)) / "s"

    def client(self, run_id: int = 7, provider: str = "scripted") -> UnixClient:
        client = UnixClient(self.open(run_id, provider))
        self.clients.append(client)
        return client


@pytest.fixture
def run_dir() -> Iterator[Path]:
    """A short one: a unix socket's path has 107 bytes at most, and pytest's own folders can be longer."""
    path = Path(tempfile.mkdtemp(prefix="gw"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


Make = Callable[..., House]


@pytest.fixture
def make_house(run_dir: Path) -> Iterator[Make]:
    houses: list[House] = []

    def make(
        upstreams: dict[str, str] | None = None,
        keys: dict[str, str] | None = None,
        like: House | None = None,
        **more: Any,
    ) -> House:
        switch = like.switch if like else Switch()
        tickets = like.tickets if like else FakeTickets(switch)
        ledger = like.ledger if like else FakeLedger(switch, tickets)
        providers = Providers(
            keys={"SCRIPTED_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
            if keys is None
            else keys,
            upstreams=upstreams or {},
        )
        options = {
            "drain_seconds": 0.2,
            "stop_seconds": 0.2,
            "hold_seconds": 5.0,
            "retry_seconds": 0.02,
            **more,
        }
        gateway = Gateway(
            run_dir,
            run_dir / "secret",
            "here",
            tickets=tickets,
            ledger=ledger,
            providers=providers,
            **options,
        )
        house = House(run_dir, gateway, tickets, ledger, switch)
        houses.append(house)
        if not switch.away:
            gateway.start()
        return house

    yield make
    for house in houses:
        for client in house.clients:
            client.close()
        house.gateway.stop()


@pytest.fixture
def scripted() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as provider:
        yield provider


@pytest.fixture
def manual() -> Iterator[ManualUpstream]:
    upstream = ManualUpstream()
    yield upstream
    upstream.close()
