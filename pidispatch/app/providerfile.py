"""Read what the operator's files say of providers: addresses, bounds, and where keys come from."""

from collections.abc import Mapping

from pidispatch.config import Settings, forwarded_values
from pidispatch.domain.files.piauth import WAY_OUT, Stored, parse_pi_auth
from pidispatch.domain.files.providers import ProviderEntries, parse_providers
from pidispatch.domain.providers import all_key_names
from pidispatch.errors import ConfigurationRefused
from pidispatch.files.own import read_own
from pidispatch.files.reading import read


def provider_entries(settings: Settings) -> ProviderEntries:
    """What the providers file says; nothing without one. Raises ConfigurationRefused."""
    path = settings.providers_file
    if path is None:
        return ProviderEntries()
    content = read(path).data
    if content is None:
        raise ConfigurationRefused([f"{path}: does not exist"])
    return parse_providers(content, str(path))


def key_variables(settings: Settings, entries: ProviderEntries) -> frozenset[str]:
    """The names of all variables that may hold a key, which no process but the gateway's may have."""
    return all_key_names((*settings.upstreams, *entries.entries)) | entries.variables


def stored_by_pi(settings: Settings, environ: Mapping[str, str]) -> Mapping[str, Stored]:
    """The keys in pi's auth.json, for the gateway's process alone. Raises ConfigurationRefused."""
    if not settings.auth_from_pi or settings.pi_agent_dir is None:
        return {}
    path = settings.pi_agent_dir / "auth.json"
    try:
        content = read_own(path)
    except ConfigurationRefused as error:
        raise ConfigurationRefused([f"{problem}; {WAY_OUT}" for problem in error.problems]) from error
    return {} if content is None else parse_pi_auth(content, str(path), environ)


def forwarded_environment(settings: Settings, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that the agent's shell gets from this process. Raises ConfigurationRefused."""
    keys = key_variables(settings, provider_entries(settings))
    return forwarded_values(settings.forward_env, environ, keys=keys)
