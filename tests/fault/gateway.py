"""The gateway's process, with failpoints around the go."""

from pidispatch.entrypoints.gateway import main
from pidispatch.store.runs.calls import PostgresTickets
from tests.fault.failpoints import hold_after, hold_before

if __name__ == "__main__":
    hold_after(PostgresTickets, "give_go", "go-given")
    hold_before(PostgresTickets, "give_go", "started")
    raise SystemExit(main())
