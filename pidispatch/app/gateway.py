"""Build the gateway process: the only one that reads provider keys."""

from pidispatch.app.egress import allowlist_in_force
from pidispatch.app.places import addresses, environment
from pidispatch.config import Settings, provider_keys
from pidispatch.gateway.evidence import Evidence
from pidispatch.gateway.prices import NO_PRICES
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import KNOWN, Providers, key_names
from pidispatch.gateway.tunnel import Egress
from pidispatch.store import schema
from pidispatch.store.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.database import Database
from pidispatch.store.egress import PostgresEgressUses


def build_gateway(settings: Settings) -> Gateway:
    """Raises ConfigurationRefused, SchemaDiffers, DatabaseUnavailable."""
    database = Database(addresses(settings).database, pool_size=8, application="pidispatch gateway")
    schema.require(database)
    settings.home.mkdir(parents=True, exist_ok=True)
    settings.run_dir.parent.mkdir(parents=True, exist_ok=True)
    return Gateway(
        settings.run_dir,
        settings.home / "gateway.key",
        settings.worker_name,
        tickets=PostgresTickets(database, timeout=settings.job_timeout),
        ledger=PostgresCallLedger(database),
        providers=_providers(settings),
        prices=NO_PRICES,
        egress=Egress(allowlist_in_force(settings), evidence=Evidence(PostgresEgressUses(database))),
        clock=database.now,
    )


def _providers(settings: Settings) -> Providers:
    names = {name for provider in (*KNOWN, *settings.upstreams) for name in key_names(provider)}
    keys = provider_keys(environment(), names)
    return Providers(keys=keys, upstreams=dict(settings.upstreams), apis=dict(settings.provider_apis))
