"""Parse pi's `auth.json`: the keys of providers that pi was given by hand."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pidispatch.domain import words
from pidispatch.domain.files.jsonfile import Node, read_json
from pidispatch.errors import ConfigurationRefused

NO_KEY, KEY_COMMAND = "no-key", "key-command"
# pi's own escapes: `$$` and `$!` are a plain `$` and `!` (docs/models.md of pi).
_REFERENCE = re.compile(r"\$(?:([$!])|\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_PLAIN = re.compile(r"[\x21-\x7e]+")
WAY_OUT = "write it anew with pi's /login, or set PI_AUTH_FROM_PI=0"


@dataclass(frozen=True, slots=True)
class Stored:
    """What the file has for one provider: a key, or the word for why it is none that may be used."""

    key: str | None = field(default=None, repr=False)
    lacks: str | None = None


def parse_pi_auth(content: bytes, file: str, environ: Mapping[str, str]) -> Mapping[str, Stored]:
    """The credentials by provider; `$NAME` in a key stands for a variable. Raises ConfigurationRefused.

    No message shows anything of the file but names of providers that are sound.
    """
    try:
        root = read_json(content, file).value
    except ConfigurationRefused:
        root = None
    if not isinstance(root, dict):
        raise ConfigurationRefused([f"{file}: is not what pi writes there; {WAY_OUT}"])
    found = {name: _stored(node, environ) for name, node in root.items()}
    unusable = [
        name for name, each in found.items() if each.key is not None and not _PLAIN.fullmatch(each.key)
    ]
    if unusable:
        raise ConfigurationRefused(
            [f"{file}: a key holds a space, a control character or one outside ASCII; {WAY_OUT}"]
        )
    return found


def _stored(node: Node, environ: Mapping[str, str]) -> Stored:
    """OAuth logins are another product's: their terms and their tokens are no API key."""
    entry = node.value if isinstance(node.value, dict) else {}
    kind, key = _text(entry.get("type")), _text(entry.get("key"))
    if kind == "oauth":
        return Stored(lacks=words.OAUTH_LOGIN)
    if kind != "api_key" or not key:
        return Stored(lacks=NO_KEY)
    if key.startswith("!"):
        return Stored(lacks=KEY_COMMAND)
    resolved = _resolved(key, {**environ, **_own(entry.get("env"))})
    return Stored(key=resolved) if resolved else Stored(lacks=NO_KEY)


def _resolved(key: str, environ: Mapping[str, str]) -> str | None:
    """None when it speaks of a variable that is not set."""
    names = [found[2] or found[3] for found in _REFERENCE.finditer(key)]
    if any(name is not None and not environ.get(name) for name in names):
        return None
    return _REFERENCE.sub(lambda found: found[1] or environ[found[2] or found[3]], key)


def _own(node: Node | None) -> dict[str, str]:
    """The credential's own variables, which come before those of the environment."""
    values = node.value if node is not None and isinstance(node.value, dict) else {}
    return {name: each.value for name, each in values.items() if isinstance(each.value, str)}


def _text(node: Node | None) -> str:
    return node.value if node is not None and isinstance(node.value, str) else ""
