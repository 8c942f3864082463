"""Both servers of one home, in the order they start."""

from pidispatch.services.account import Account
from pidispatch.services.home import Home
from pidispatch.services.postgres import EmbeddedPostgres
from pidispatch.services.valkey import EmbeddedValkey


def embedded_valkey(home: Home, account: Account | None) -> EmbeddedValkey:
    """Valkey of a prepared home."""
    return EmbeddedValkey(home.valkey_data, home.valkey_run, account, log=home.logs / "valkey.log")


def embedded_postgres(home: Home, account: Account | None, *, durable: bool = True) -> EmbeddedPostgres:
    """Postgres of a prepared home."""
    return EmbeddedPostgres(
        home.postgres_data, home.postgres_run, account, log=home.logs / "postgres.log", durable=durable
    )
