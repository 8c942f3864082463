"""Change one key of `settings.json`, leaving every other as it is."""

import re

from pidispatch.domain.limits.settings import parse_overlay
from pidispatch.domain.limits.settingskeys import KEYS, SettingKey, SettingKind, accepted, key_meant
from pidispatch.domain.text.fields import Report, root_entry
from pidispatch.domain.text.jsonfile import Node, Number, read_json, shown, write_json
from pidispatch.errors import ConfigurationRefused


def with_key(content: bytes | None, key: str, value: str | None, file: str = "settings.json") -> bytes:
    """The file with `key` set to the text `value`, or without it for None. A missing file is None.

    Raises ConfigurationRefused when the key or its value is not accepted, or the outcome would not be: a key that
    is wrong can be put right or removed, but a file that holds another fault stays as it is.
    """
    root = root_entry(
        read_json(content, file) if content is not None else Node({}),
        Report(file),
        "an object of settings",
    )
    entries = dict(root.fields)
    if value is None:
        if entries.pop(key, None) is None and key not in KEYS:
            raise ConfigurationRefused([_no_such_key(key)])
    else:
        entries[key] = _node(key, value)
    new = write_json(Node(entries))
    parse_overlay(new, file)
    return new


def value_of(content: bytes | None, key: str, file: str = "settings.json") -> str | None:
    """What the file holds for a key, as text for people; None when it is not there."""
    if content is None:
        return None
    node = root_entry(read_json(content, file), Report(file), "an object of settings").fields.get(key)
    match node.value if node is not None else None:
        case None:
            return None
        case Number(text) | str(text):
            return text
        case dict() as entries:
            return ",".join(
                f"{name}:{each.value if isinstance(each.value, str) else '?'}"
                for name, each in entries.items()
            )
        case _:
            return "?"


def _no_such_key(key: str) -> str:
    meant = key_meant(key) or next((name for name in KEYS if name.lower() == key.lower()), None)
    hint = f"; did you mean {meant}?" if meant else ""
    return f"{shown(key)} is no setting{hint} Known are {', '.join(KEYS)}"


def _node(name: str, value: str) -> Node:
    key = KEYS.get(name)
    if key is None:
        raise ConfigurationRefused([_no_such_key(name)])
    node = _written(key, value)
    if node is None or accepted(key, node) is None:
        raise ConfigurationRefused([f"{name} must be {_wanted(key)}"])
    return node


def _written(key: SettingKey, value: str) -> Node | None:
    """The value as the file holds it: amounts stay the text they are, since they are exact that way."""
    match key.kind:
        case SettingKind.WHOLE:
            return Node(Number(value)) if re.fullmatch(r"[1-9][0-9]{0,15}", value) else None
        case SettingKind.PROFILES:
            pairs = [part.strip().partition(":") for part in value.split(",") if part.strip()]
            names = [name for name, _, _ in pairs]
            return Node({n: Node(path) for n, _, path in pairs}) if len(set(names)) == len(names) else None
        case _:
            return Node(value)


def _wanted(key: SettingKey) -> str:
    return "name:/absolute/path pairs with commas between" if key.kind is SettingKind.PROFILES else key.wanted
