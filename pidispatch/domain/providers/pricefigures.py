"""Read the figures of one model in the prices file."""

from dataclasses import dataclass
from itertools import pairwise

from pidispatch.domain.providers.known import is_model
from pidispatch.domain.providers.rates import Price, Rates, Rating, rates_of
from pidispatch.domain.text.fields import FileEntry

RATES = ("input", "output", "cacheRead", "cacheWrite", "cacheWrite1h")
_KNOWN = (*RATES, "request", "tiers")


@dataclass(frozen=True, slots=True)
class Like:
    """The model costs what another one does, whose name is as it was written."""

    name: str
    version: str

    @property
    def provider(self) -> str:
        return self.name.partition("/")[0]

    @property
    def model(self) -> str:
        return self.name.partition("/")[2]


def figures_of(entry: FileEntry, name: str, version: str) -> Price | Like | None:
    """What the entry of the model `name` says; None when it was refused."""
    if entry.node("like") is not None:
        return _like(entry, name, version)
    before = len(entry.report.problems)
    request = entry.micros("request", zero=True) or 0
    base = _rates(entry, name, request, ())
    tiers = _tiers(entry, name, request)
    entry.refuse_unknown((*_KNOWN, "like"))
    if base is None or len(entry.report.problems) > before:
        return None
    return Price(Rating.PRICED, ((0, base), *tiers), version)


def _like(entry: FileEntry, name: str, version: str) -> Like | None:
    target = entry.text("like")
    if target is None:
        return None
    if not is_model(target) or "*" in target:
        entry.refuse("like", "must name a model as provider/model")
        return None
    if target.lower() == name.lower():
        entry.refuse("like", "must name another model")
        return None
    for field in sorted(entry.unknown()):
        entry.refuse(field, "must not stand beside like: that model's figures are taken as they are")
    return Like(target, version)


def _rates(entry: FileEntry, name: str, request: int, must: tuple[str, ...]) -> Rates | None:
    """The rates of an entry or of one of its tiers, where `must` names what has to be given besides the first two."""
    amounts = {field: entry.micros(field, zero=True) for field in RATES}
    for field in (*RATES[:2], *must):
        if entry.node(field) is None:
            why = ", since the entry has it" if field in must else ""
            entry.refuse(field, f"must be given{why}: dollars for a million tokens")
    fresh, out = amounts["input"], amounts["output"]
    if fresh is None or out is None:
        return None
    if fresh == 0 and out == 0:
        entry.refuse_entry('costs nothing; name the model in "free" if that is so')
        return None
    return rates_of(
        name,
        fresh=fresh,
        out=out,
        cache_read=amounts["cacheRead"],
        cache_write=amounts["cacheWrite"],
        cache_write_1h=amounts["cacheWrite1h"],
        request=request,
    )


def _tiers(entry: FileEntry, name: str, request: int) -> list[tuple[int, Rates]]:
    if entry.node("tiers") is None:
        return []
    # A rate that is left out of a tier would silently be the lower one of the entry.
    must = tuple(field for field in RATES[2:] if entry.node(field) is not None)
    found: list[tuple[int, Rates]] = []
    for _, tier in entry.entries("tiers", "above"):
        tier.where = f"{entry.where}: {tier.where}"
        above = tier.whole("above", maximum=2**31 - 1)
        if above is None and tier.node("above") is None:
            tier.refuse("above", "must be given: the tokens in above which the tier begins")
        rates = _rates(tier, name, request, must)
        tier.refuse_unknown(("above", *RATES))
        if above is not None and rates is not None:
            found.append((above, rates))
    if any(low >= high for (low, _), (high, _) in pairwise(found)):
        entry.refuse("tiers", "must ascend: each above must be more than the one before it")
    return found
