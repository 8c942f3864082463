"""Build the gateway process: the only one that reads provider keys."""

import threading
from collections.abc import Callable, Sequence

from pidispatch.app.egress import allowlist_in_force
from pidispatch.app.hostname import await_place
from pidispatch.app.installation import Addresses, Installation, addresses
from pidispatch.app.keeping import OF_GATEWAYS, kept_files
from pidispatch.app.prices import joined_prices, prices_file, prices_problems
from pidispatch.app.providerfile import key_variables, providers_file, stored_by_pi
from pidispatch.app.secrets import known_secrets, named
from pidispatch.config import Settings, provider_keys
from pidispatch.config.environment import environment
from pidispatch.domain.providers.providersfile import ProviderEntries
from pidispatch.domain.text.redaction import Redactor
from pidispatch.errors import ConfigurationRefused
from pidispatch.files.watching import FileWatch
from pidispatch.gateway.egress.log import EgressLog
from pidispatch.gateway.egress.tunnel import Egress
from pidispatch.gateway.http.rooms import Limits
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Patience, Providers
from pidispatch.store.runs.calls import PostgresCallLedger, PostgresStops, PostgresTickets
from pidispatch.store.runs.egress import PostgresEgressUses


def build_gateway(settings: Settings) -> Gateway:
    """Raises ConfigurationRefused, SchemaDiffers, DatabaseUnavailable.

    It settles what an earlier gateway of the host left open, so another machine must not live under the host's name.
    """
    here = Installation(settings, application="pidispatch gateway", connections=8, where=_addresses(settings))
    database = here.database
    await_place(here)
    settings.home.mkdir(parents=True, exist_ok=True)
    settings.run_dir.parent.mkdir(parents=True, exist_ok=True)
    environ, own = environment(), known_secrets(settings)
    # Every variable that may hold a key, as long as it is not known which of them do.
    guarded = Redactor(own | frozenset(named(environ, set(environ))))
    kept = kept_files(settings, database, guarded, OF_GATEWAYS)
    listed, priced = providers_file(settings, kept), prices_file(settings, kept)
    providers = _providers(settings, ProviderEntries() if listed is None else listed.load())
    redactor = Redactor(providers.secrets() | own)
    prices, allowlist = joined_prices(priced), allowlist_in_force(settings, kept)
    _watch([allowlist, *(file.current for file in (listed, priced) if file is not None)])
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
        egress=Egress(allowlist, evidence=EgressLog(PostgresEgressUses(database), mask=redactor.text)),
        limits=Limits(
            settings.run_connections, settings.all_connections, settings.run_tunnels, settings.all_tunnels
        ),
        provider_tools=settings.provider_tools,
        clock=database.now,
    )


def _addresses(settings: Settings) -> Addresses:
    """Where nothing is known of an earlier content, what is wrong with the files is told with it."""
    try:
        return addresses(settings)
    except ConfigurationRefused as error:
        raise ConfigurationRefused([*error.problems, *prices_problems(settings)]) from error


def _providers(settings: Settings, entries: ProviderEntries) -> Providers:
    environ = environment()
    return Providers(
        keys=provider_keys(environ, key_variables(settings, entries)),
        upstreams=dict(settings.upstreams),
        apis=dict(settings.provider_apis),
        entries=entries.entries,
        stored=stored_by_pi(settings, environ),
        patience=Patience(settings.connect_timeout, next=settings.next_byte_timeout or None),
        first_byte=settings.first_byte_timeout,
    )


def _watch(looks: Sequence[Callable[[], object]]) -> None:
    """As long as the process lasts: what it tells is for people, and nothing waits for it."""
    watch = FileWatch(looks)
    threading.Thread(target=watch.run, args=(threading.Event(),), name="operator files", daemon=True).start()
