"""One process of the admission benchmark: it admits runs, or makes the bare transactions beside which that is judged."""

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import psycopg

from pidispatch.domain.ask import Terms
from pidispatch.domain.limits import Cap
from pidispatch.ports import Admitted, Ready
from pidispatch.store.admission import PostgresAdmissions
from pidispatch.store.database import Database

HOST = "bench"
NEWEST = "SELECT DISTINCT ON (period) id FROM spend_windows WHERE scope = '*' ORDER BY period, starts_on DESC"
BARE = "UPDATE spend_windows SET used = used + 1 WHERE id = %s"


@dataclass(frozen=True)
class Order:
    """Do `times` of one side, and say how many seconds each took."""

    side: str
    times: int


def serve(pipe: Connection, url: str, caps: tuple[Cap, ...], number: int) -> None:
    """Answer every order with the list of seconds; ends when the pipe closes."""
    database = Database(url)
    admissions = PostgresAdmissions(database, host=HOST, worker=f"{HOST}:{number}")
    libpq = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(libpq) as bare:
        windows = [row[0] for row in bare.execute(NEWEST)]
        bare.commit()
        while True:
            try:
                order: Order = pipe.recv()
            except EOFError:
                break
            act = (
                (lambda: admit_one(admissions, caps))
                if order.side == "ours"
                else lambda: count_bare(bare, windows)
            )
            pipe.send(timed(act, order.times))
    database.close()


def timed(act: Any, times: int) -> list[float]:
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        seconds.append(time.perf_counter() - began)
    return seconds


def count_bare(connection: psycopg.Connection, windows: list[int]) -> None:
    with connection.transaction():
        for window in windows:
            connection.execute(BARE, [window])


def admit_one(admissions: PostgresAdmissions, caps: tuple[Cap, ...]) -> None:
    """Look and admit, as the gate does, until one is admitted: another process may be quicker with the same run."""
    passed: list[int] = []
    while True:
        run = admissions.next_due(passed)
        if run is None:
            raise RuntimeError("nothing waits any more")
        answer = admissions.admit(run, ready(int(run.public_id.rsplit("-", 1)[-1]), caps))
        if isinstance(answer, Admitted):
            return
        passed.append(run.run_id)


def ready(number: int, caps: tuple[Cap, ...]) -> Ready:
    return Ready(
        terms=Terms("scripted", "happy", "pi-job:latest", max_turns=30),
        image_id="sha256:1",
        engine_id="engine",
        mutex=f"inode:{HOST}:{number}",
        caps=caps,
        capacity=1_000_000,
        concurrent={},
        project=None,
        facts={"gates": {"image": "sha256:1", "provider": {"api": "openai-completions", "key": True}}},
    )
