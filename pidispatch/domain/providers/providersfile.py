"""Parse `providers.json`: which address, wire API, key and bounds each provider has."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from pidispatch.domain.providers.known import KNOWN, URL_WANTED, is_base_url
from pidispatch.domain.providers.wireapis import WIRE_APIS
from pidispatch.domain.text.fields import FileEntry, Report, require_version, root_entry
from pidispatch.domain.text.jsonfile import read_json, shown

VERSION = 1
MOST_SLOTS = 10_000
MOST_TOKENS = 2**31 - 1
MOST_SECONDS = 86_400
MOST_RATE = 1_000_000
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_MODEL = re.compile(r"[\x21-\x7e]{1,200}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_KEY_WANTED = 'must be "env:NAME" with the name of a variable, "pi" or "none"; no key stands in this file'


@dataclass(frozen=True, slots=True)
class KeyFrom:
    """Where a provider's key comes from: the variable `env`, pi's auth.json, or (neither) nowhere: none is needed."""

    env: str | None = None
    pi: bool = False


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """What pi is told of a model, in tokens; None: what pi knows itself, else a default."""

    context_window: int | None = None
    max_tokens: int | None = None
    reasoning: bool | None = None


@dataclass(frozen=True, slots=True)
class ProviderEntry:
    """What the file says of one provider; None: what holds without the file. `slots`: calls at a time.

    `first_byte`: seconds that it may take for the first byte of an answer, 0 for any time.
    `rate`: tokens a second that no model of it passes. To be said only of one that stops when it is hung up on.
    """

    api: str | None = None
    base_url: str | None = None
    key: KeyFrom | None = None
    slots: int | None = None
    first_byte: int | None = None
    rate: int | None = None
    models: Mapping[str, ModelFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProviderEntries:
    """The providers by name."""

    entries: Mapping[str, ProviderEntry] = field(default_factory=dict)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def variables(self) -> frozenset[str]:
        """The names of the variables that hold keys."""
        return frozenset(each.key.env for each in self.entries.values() if each.key and each.key.env)


def parse_providers(content: bytes, file: str) -> ProviderEntries:
    """The providers of the file. Raises ConfigurationRefused with every problem, and shows no value of it."""
    report = Report(file)
    root = root_entry(read_json(content, file), report, 'an object with "version" and "providers"')
    require_version(root, VERSION)
    entries = {name: _provider(name, entry) for name, entry in _objects(root, "providers")}
    root.refuse_unknown(("version", "providers"))
    report.close()
    return ProviderEntries(entries, tuple(report.notes))


def _objects(entry: FileEntry, name: str) -> list[tuple[str, FileEntry]]:
    """Each object of the object `name`, called by its key; what is none is refused."""
    node = entry.node(name)
    if node is None or not isinstance(node.value, dict):
        entry.refuse(name, "must be an object")
        return []
    found = []
    for key, item in node.value.items():
        where = f"{name}.{shown(key)}" if not entry.where else f"{entry.where}: {name}.{shown(key)}"
        if isinstance(item.value, dict):
            found.append((key, FileEntry(entry.report, where, item.value, item.line)))
        else:
            entry.report.refuse(item.line, f"{where}: must be an object")
    return found


def _provider(name: str, entry: FileEntry) -> ProviderEntry:
    if not _NAME.fullmatch(name):
        entry.refuse_entry("its name must be 1 to 64 of a-z, 0-9, dot, dash and underscore")
    api = entry.text("api")
    if api is not None and api not in WIRE_APIS:
        entry.refuse("api", f"must be one of {', '.join(WIRE_APIS)}")
    base = entry.text("baseUrl")
    if base is not None and not is_base_url(base):
        entry.refuse("baseUrl", f"must be {URL_WANTED}")
    if base is None and name not in KNOWN and entry.node("baseUrl") is None:
        entry.refuse_entry("is no provider that pidispatch knows, so it needs a baseUrl")
    made = ProviderEntry(
        api=api,
        base_url=None if base is None else base.rstrip("/"),
        key=_key(entry),
        slots=entry.whole("slots", maximum=MOST_SLOTS),
        first_byte=entry.whole("firstByteSeconds", minimum=0, maximum=MOST_SECONDS),
        rate=entry.whole("mostTokensPerSecond", maximum=MOST_RATE),
        models=_models(entry),
    )
    entry.refuse_unknown(
        ("api", "baseUrl", "key", "slots", "firstByteSeconds", "mostTokensPerSecond", "models")
    )
    return made


def _key(entry: FileEntry) -> KeyFrom | None:
    node = entry.node("key")
    if node is None:
        return None
    text = node.value if isinstance(node.value, str) else ""
    if text in {"pi", "none"}:
        return KeyFrom(pi=text == "pi")
    variable = text.removeprefix("env:")
    if text.startswith("env:") and _VARIABLE.fullmatch(variable):
        return KeyFrom(env=variable)
    entry.refuse("key", _KEY_WANTED)
    return None


def _models(entry: FileEntry) -> dict[str, ModelFigures]:
    if entry.node("models") is None:
        return {}
    return {name: _figures(name, each) for name, each in _objects(entry, "models")}


def _figures(name: str, entry: FileEntry) -> ModelFigures:
    if not _MODEL.fullmatch(name):
        entry.refuse_entry("its name must be 1 to 200 visible ASCII characters")
    window = entry.whole("contextWindow", maximum=MOST_TOKENS)
    most = entry.whole("maxTokens", maximum=MOST_TOKENS)
    if window is not None and most is not None and most > window:
        entry.refuse("maxTokens", "must be no more than contextWindow")
    reasoning = entry.node("reasoning")
    if reasoning is not None and not isinstance(reasoning.value, bool):
        entry.refuse("reasoning", "must be true or false")
    entry.refuse_unknown(("contextWindow", "maxTokens", "reasoning"))
    thinks = reasoning.value if reasoning is not None and isinstance(reasoning.value, bool) else None
    return ModelFigures(window, most, thinks)
