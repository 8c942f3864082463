"""Read what the operator's files say of providers: addresses, bounds, and where keys come from."""

from collections.abc import Mapping
from pathlib import Path

from pidispatch.config import Settings, forwarded_values
from pidispatch.domain.files.inforce import FileName
from pidispatch.domain.providers.known import all_key_names
from pidispatch.domain.providers.piauth import WAY_OUT, Stored, parse_pi_auth
from pidispatch.domain.providers.providersfile import ProviderEntries, parse_providers
from pidispatch.errors import ConfigurationRefused
from pidispatch.files import LiveFile
from pidispatch.files.reading import read_own
from pidispatch.ports import KeptFiles


class ProvidersFile(LiveFile[ProviderEntries]):
    """The providers file: an edit is in force once the gateway starts again, and told at once."""

    good_event = "changed"  # and not "reloaded": the doors that are open go on as they were opened

    def __init__(self, path: Path, kept: KeptFiles | None = None) -> None:
        super().__init__(
            FileName.PROVIDERS, path, lambda content: parse_providers(content, str(path)), kept=kept
        )


def providers_file(settings: Settings, kept: KeptFiles | None = None) -> ProvidersFile | None:
    """The file that the settings name; `kept` is where its last good content is."""
    return None if settings.providers_file is None else ProvidersFile(settings.providers_file, kept)


def provider_entries(settings: Settings, kept: KeptFiles | None = None) -> ProviderEntries:
    """What the providers file says, or said when it was last good; nothing without one. Raises ConfigurationRefused."""
    file = providers_file(settings, kept)
    return ProviderEntries() if file is None else file.load()


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


def forwarded_environment(
    settings: Settings, environ: Mapping[str, str], kept: KeptFiles | None = None
) -> Mapping[str, str]:
    """The variables that the agent's shell gets from this process. Raises ConfigurationRefused."""
    keys = key_variables(settings, provider_entries(settings, kept))
    return forwarded_values(settings.forward_env, environ, keys=keys)
