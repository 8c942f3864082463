"""Build the gateway process: the only one that reads provider keys."""

from pidispatch.app.egress import allowlist_in_force
from pidispatch.app.places import addresses, environment
from pidispatch.app.prices import prices_of
from pidispatch.app.providerfile import key_variables, provider_entries, stored_by_pi
from pidispatch.app.secrets import known_secrets
from pidispatch.config import Settings, provider_keys
from pidispatch.domain.redaction import Redactor
from pidispatch.gateway.evidence import Evidence
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Providers
from pidispatch.gateway.tunnel import Egress
from pidispatch.store import schema
from pidispatch.store.calls import PostgresCallLedger, PostgresTickets
from pidispatch.store.database import Database
from pidispatch.store.egress import PostgresEgressUses
from pidispatch.store.stops import PostgresStops


def build_gateway(settings: Settings) -> Gateway:
    """Raises ConfigurationRefused, SchemaDiffers, DatabaseUnavailable."""
    prices = prices_of(settings)
    database = Database(addresses(settings).database, pool_size=8, application="pidispatch gateway")
    schema.require(database)
    settings.home.mkdir(parents=True, exist_ok=True)
    settings.run_dir.parent.mkdir(parents=True, exist_ok=True)
    providers = _providers(settings)
    redactor = Redactor(providers.secrets() | known_secrets(settings))
    return Gateway(
        settings.run_dir,
        settings.home / "gateway.key",
        settings.worker_name,
        tickets=PostgresTickets(database, timeout=settings.job_timeout),
        ledger=PostgresCallLedger(database),
        providers=providers,
        redactor=redactor,
        prices=prices,
        stops=PostgresStops(database),
        egress=Egress(
            allowlist_in_force(settings),
            evidence=Evidence(PostgresEgressUses(database), mask=redactor.text),
        ),
        provider_tools=settings.provider_tools,
        clock=database.now,
    )


def _providers(settings: Settings) -> Providers:
    environ = environment()
    entries = provider_entries(settings)
    return Providers(
        keys=provider_keys(environ, key_variables(settings, entries)),
        upstreams=dict(settings.upstreams),
        apis=dict(settings.provider_apis),
        entries=entries.entries,
        stored=stored_by_pi(settings, environ),
    )
