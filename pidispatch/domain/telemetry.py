"""Keep what a box says of itself at its end, and set it beside what was measured: never for money, limits or the outcome."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pidispatch.domain.exitfields import FOLD_ROW
from pidispatch.domain.exitline import ExitLine
from pidispatch.domain.redaction import MASK
from pidispatch.domain.words import WORDS

MOST_BYTES = 32 * 1024  # of a box's telemetry as JSON; what a line can hold comes to less
_BLOCKS = ("tokens", "usage", "context", "session", "resources")
_PLAIN = ("code", "reason", "turns", "message", "signal")
_CONTROLS = {code: "\ufffd" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


@dataclass(frozen=True, slots=True)
class Measured:
    """What the gateway measured of one model in one attempt; `turns` are calls that were answered, or may have been.

    Money is micro-dollars, None without a price.
    """

    provider: str
    model: str
    turns: int
    tokens: int
    micros: int | None


@dataclass(frozen=True, slots=True)
class Observed:
    """What is known of an attempt without its box: by the engine, by the gateway, and what was put into the box."""

    exit_code: int | None
    models: Sequence[Measured] = ()
    resumed: bool | None = None


@dataclass(frozen=True, slots=True)
class Compared:
    """One thing that the box said, beside the same as it was measured; None where one of them says nothing of it."""

    of: str
    said: Any
    measured: Any
    differs: bool


def telemetry(line: ExitLine, mask: Callable[[str], str] | None) -> dict[str, Any]:
    """What the line says, bounded and fit to be kept: its blocks by the names of `exitblocks`, without what it left out.

    `mask` hides secrets in a text; None, nobody can: then only numbers, flags and words of ours are kept.
    """
    said = {name: getattr(line, name) for name in _PLAIN}
    said |= {
        name: None if (block := getattr(line, name)) is None else _given(asdict(block)) for name in _BLOCKS
    }
    found = {**_given(said), **({"truncated": True} if line.truncated else {})}
    kept: dict[str, Any] = _with_texts(found, iter(_hidden(list(_texts(found)), mask)))
    if len(json.dumps(kept)) > MOST_BYTES:
        kept.pop("message", None)
    return kept


def _given(block: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if value is not None}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def _with_texts(value: Any, texts: Iterator[str | None]) -> Any:
    """The same with its texts replaced, in their order."""
    if isinstance(value, str):
        return next(texts)
    if isinstance(value, dict):
        return _given({name: _with_texts(item, texts) for name, item in value.items()})
    return [_with_texts(item, texts) for item in value] if isinstance(value, list | tuple) else value


def _hidden(texts: Sequence[str], mask: Callable[[str], str] | None) -> list[str | None]:
    """Each text without secrets and controls. A secret may be spread over several: then none of them is kept."""
    plain = [text.translate(_CONTROLS) for text in texts]
    if mask is None:
        return [text if text in WORDS else None for text in plain]
    whole = "\n".join(plain)
    if mask(whole) == whole:
        return list(plain)
    each = [mask(text) for text in plain]
    whole = "\n".join(each)
    return list(each) if mask(whole) == whole else [MASK for _ in each]


def compare(said: Mapping[str, Any], observed: Observed) -> list[Compared]:
    """Everything that the box said or that was measured of its attempt, the sums first.

    Dollars differ when they are further apart than one micro-dollar for each call, since each of them was rounded; those
    of a box that says itself that it did not meter them are shown and never marked.
    """
    tokens = said.get("tokens") or {}
    turns = sum(each.turns for each in observed.models)
    prices = [each.micros for each in observed.models]
    micros = None if None in prices else sum(filter(None, prices))
    within = None if tokens.get("metered") is False else turns
    session = said.get("session") or {}
    return [
        line
        for line in (
            _compared("code", said.get("code"), observed.exit_code),
            _compared("turns", said.get("turns"), turns),
            _compared("calls", tokens.get("calls"), turns),
            _compared("tokens", tokens.get("total"), sum(each.tokens for each in observed.models)),
            _compared("micros", _micros(tokens.get("cost")), micros, within=within),
            _compared("resumed", session.get("resumed"), observed.resumed),
            *_models(said, observed),
        )
        if line.said is not None
    ]


def _models(said: Mapping[str, Any], observed: Observed) -> Iterator[Compared]:
    """Tokens by model. What was measured and not said is told as well, unless the box folded rows, or names are not kept."""
    rows = (said.get("usage") or {}).get("models") or []
    told: Counter[str] = Counter()
    is_whole = bool(rows)
    for row in rows:
        names = row.get("provider"), row.get("model")
        if names == FOLD_ROW or None in names:
            is_whole = False
        else:
            told["/".join(names)] += row.get("total", 0)
    measured: Counter[str] = Counter()
    for each in observed.models:
        measured[f"{each.provider}/{each.model}".lower()] += each.tokens
    if is_whole:
        told.update(dict.fromkeys(measured, 0))
    for name, total in told.items():
        yield _compared(name, total, measured[name])


def _micros(dollars: float | None) -> int | None:
    return None if dollars is None else round(dollars * 1_000_000)


def _compared(of: str, said: Any, measured: Any, *, within: int | None = 0) -> Compared:
    if said is None or measured is None or within is None:
        return Compared(of, said, measured, differs=False)
    apart = abs(said - measured) > within
    return Compared(of, said, measured, differs=apart)
