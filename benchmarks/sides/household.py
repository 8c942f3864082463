"""A gateway in a process of its own, over a database of its own, with the doors of some running runs open."""

from multiprocessing.connection import Connection
from pathlib import Path

import structlog
from sqlalchemy import text

from pidispatch.domain.providers.rates import Price, Rates, Rating
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Providers
from pidispatch.store.database import Database
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresTickets

HOST = "bench"
CAP_MICROS = 10**12
KEY = (
    "sk-bench-" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0z" * 3
)  # as long as real ones: each answer is searched for it
RUNNING = """
WITH added AS (
  INSERT INTO runs (public_id, target, scope, pinned_host, trigger_type, provider, model, image, state, attempt, epoch,
                    host, admitted_at, started_at, cost_cap_micros, max_tokens, max_turns, admission)
  SELECT 'local-' || n, 'local:x', 'folder:' || n, :host, 'cli', 'bench', 'm', 'i', 'running', 1, 4, :host, now(), now(),
         :cap, :cap, 1000000, '{}'
  FROM generate_series(1, :runs) AS n RETURNING id)
INSERT INTO run_attempts (run_id, attempt, host, container_id, go_at)
SELECT id, 1, :host, md5(id::text), now() FROM added RETURNING run_id
"""


def fill(database: Database, runs: int) -> list[int]:
    """Running runs with caps of dollars and tokens that are never reached."""
    with database.transaction() as connection:
        connection.execute(text("INSERT INTO hosts (name, capacity) VALUES (:host, 100)"), {"host": HOST})
        connection.execute(text("INSERT INTO scopes (key) SELECT 'folder:' || n FROM generate_series(1, :runs) AS n"), {"runs": runs})  # fmt: skip
        rows = connection.execute(text(RUNNING), {"host": HOST, "cap": CAP_MICROS, "runs": runs})
        return [row[0] for row in rows]


class _OnePrice:
    def find(self, provider: str, model: str) -> Price:
        del provider, model
        rates = Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)
        return Price(Rating.PRICED, ((0, rates), (200_000, rates)), "bench")


def serve(pipe: Connection, url: str, run_dir: str, upstream: str) -> None:
    """Say when the doors are open, and serve until the pipe closes."""
    structlog.configure(logger_factory=lambda *_: structlog.ReturnLogger())
    database = Database(url, pool_size=8)
    gateway = Gateway(
        Path(run_dir),
        Path(run_dir) / "key",
        HOST,
        tickets=PostgresTickets(database, timeout=3600),
        ledger=PostgresCallLedger(database),
        providers=Providers(keys={"BENCH_API_KEY": KEY}, upstreams={"bench": upstream}),
        prices=_OnePrice(),
        clock=database.now,
        stop_seconds=1.0,
    )
    gateway.start()
    pipe.send("ready")
    try:
        pipe.recv()
    except EOFError:
        gateway.stop()
        database.close()
