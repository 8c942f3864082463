"""Check the provider and the model that runs use unless they say otherwise."""

from collections.abc import Iterator

from pidispatch.app.providerfile import providers_file
from pidispatch.config import Settings
from pidispatch.domain import words
from pidispatch.domain.checkup import Finding, Grade
from pidispatch.domain.files.piauth import KEY_COMMAND
from pidispatch.domain.providers import key_names
from pidispatch.domain.rates import Rating
from pidispatch.ports import Doors, KeptFiles, ProviderFacts

_LACKS = {
    words.OAUTH_LOGIN: "pi is logged in by OAuth, which is no API key",
    KEY_COMMAND: "pi's auth.json names a command, which is not run here",
}


def check_providers_file(settings: Settings, kept: KeptFiles | None = None) -> Iterator[Finding]:
    """Read as a gateway that starts would; one that runs keeps what it read."""
    file = providers_file(settings, kept)
    if file is None:
        return
    if problems := file.not_in_force():
        way_out = "mend it, and start the gateway again; `pidispatch check FILE` judges it"
        told = "; ".join(f"not in force: {problem}" for problem in problems)
        yield Finding("providers file", Grade.FAILED, told, way_out)
        return
    yield Finding("providers file", Grade.OK, f"providers: {len(file.current().entries)}")


def check_provider(doors: Doors, settings: Settings) -> Iterator[Finding]:
    """Whether the gateway can call it, and what is known of the model. Raises GatewayUnavailable."""
    name, model = settings.provider, settings.model
    facts = doors.provider(name, model)
    if facts is None or not facts.credential:
        lack = "does not know it" if facts is None else f"has no key for it{_because(facts)}"
        yield Finding("provider", Grade.WARNING, f"{name}: the gateway {lack}", _way_out(name, facts))
        return
    key = "needs no key" if facts.key_source is None else f"its key is from {facts.key_source}"
    yield Finding("provider", Grade.OK, f"{name} by {facts.api}; {key}")
    yield _model(facts, name, model)


def _because(facts: ProviderFacts) -> str:
    return f": {_LACKS[facts.lacks]}" if facts.lacks in _LACKS else ""


def _way_out(name: str, facts: ProviderFacts | None) -> str:
    if facts is None:
        return "name its address in the gateway's environment or the providers file; docs/providers.md"
    return (
        f"set {' or '.join(key_names(name))} in the gateway's environment and restart it; docs/providers.md"
    )


def _model(facts: ProviderFacts, name: str, model: str) -> Finding:
    known = {
        Rating.PRICED: "has a price",
        Rating.FREE: "is free by your word",
        Rating.PLAN: "is paid by a plan, by your word",
        Rating.UNKNOWN: "is in the providers file" if facts.model_listed else "has no price here",
    }[facts.rating]
    if facts.rating is not Rating.UNKNOWN or facts.model_listed or not facts.known_to_pi:
        return Finding("model", Grade.OK, f"{name}/{model} {known}")
    way_out = "see that PI_MODEL is spelt as the provider spells it"
    return Finding("model", Grade.WARNING, f"{name}/{model} {known}, and no file names it", way_out)
