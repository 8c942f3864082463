"""Collect the secrets of this process's own settings, so that nothing kept of a run shows them."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import parse_qsl, unquote, urlsplit

from pidispatch.app.installation import addresses
from pidispatch.config import Settings
from pidispatch.config.environment import environment
from pidispatch.domain.box.names import MINTED_NAMES, WORKER_SECRETS

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH|_PAT$", re.IGNORECASE)


def known_secrets(settings: Settings) -> frozenset[str]:
    """Passwords of the servers, tokens, and what PI_FORWARD_ENV hands to the box under a name that says so.

    Never a provider's key: only the gateway reads those.
    """
    where = addresses(settings)
    names = WORKER_SECRETS | MINTED_NAMES | set(settings.forward_env)
    found = {*passwords_of(where.database), *passwords_of(where.redis), *named(environment(), names)}
    return frozenset(found)


def named(environ: Mapping[str, str], names: frozenset[str] | set[str]) -> Iterator[str]:
    for name in sorted(names):
        value = environ.get(name, "").strip()
        if _SECRET_NAME.search(name):
            yield value
        yield from passwords_of(value)


def passwords_of(address: str) -> Iterator[str]:
    """What an address holds as passwords, as written and as meant. One that repeats its user or database hides nothing."""
    try:
        parts = urlsplit(address)
        password, user = parts.password, parts.username
        asked = parse_qsl(parts.query)
    except ValueError:
        return
    open_words = {user, parts.path.removeprefix("/")}
    given = [] if password is None else [password, unquote(password)]
    given += [value for name, value in asked if _SECRET_NAME.search(name)]
    yield from (value for value in given if value not in open_words)
