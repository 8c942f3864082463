"""Join the operator's prices with the package's, and tell what a model costs."""

import threading
from dataclasses import dataclass

from pidispatch.app.operatorfiles import base_of
from pidispatch.app.policy import FilePolicies
from pidispatch.config import Settings
from pidispatch.domain.files.inforce import FileName
from pidispatch.domain.limits.policy import Policy
from pidispatch.domain.providers.pricefigures import Like
from pidispatch.domain.providers.pricesfile import PriceFile, parse_prices
from pidispatch.domain.providers.rates import Rates, Rating
from pidispatch.files import LiveFile
from pidispatch.gateway.prices.genai import GenaiPrices
from pidispatch.gateway.prices.table import FilePrices, Prices
from pidispatch.gateway.process import utc_now
from pidispatch.ports import KeptFiles

FILE = "PIDISPATCH_PRICES_FILE"


@dataclass(frozen=True, slots=True)
class TierRow:
    """Micro-dollars for a million tokens of each kind, and for one request, of calls with more tokens in than `above`."""

    above: int
    input: int
    output: int
    cache_read: int
    cache_write: int
    cache_write_1h: int
    request: int


@dataclass(frozen=True, slots=True)
class ModelPrice:
    """What one model costs now, and from where. `way_out` says what to write where nothing is known."""

    model: str
    rating: Rating
    version: str | None = None
    plan: str | None = None
    like: str | None = None
    tiers: tuple[TierRow, ...] = ()
    way_out: str | None = None


def prices_of(settings: Settings) -> Prices:
    """The prices as they are. Raises ConfigurationRefused for a file that cannot be used."""
    return joined_prices(prices_file(settings))


def joined_prices(file: LiveFile[PriceFile] | None) -> Prices:
    """The prices of a process that serves, by the last good edit of the file.

    Raises ConfigurationRefused for a file that cannot be used, when nothing stands in for it.
    """
    if file is not None:
        file.load()
    genai = GenaiPrices(utc_now)
    threading.Thread(target=genai.warm, name="prices", daemon=True).start()
    return genai if file is None else FilePrices(file.current, genai)


def prices_file(settings: Settings, kept: KeptFiles | None = None) -> LiveFile[PriceFile] | None:
    """The file that the settings name; `kept` is where its last good content is."""
    path = settings.prices_file
    if path is None:
        return None
    return LiveFile(FileName.PRICES, path, lambda content: parse_prices(content, str(path)), kept=kept)


def prices_problems(settings: Settings, kept: KeptFiles | None = None) -> tuple[str, ...]:
    """What is wrong with the file as it is, since when and what holds: a sentence each."""
    file = prices_file(settings, kept)
    return () if file is None else tuple(file.not_in_force())


def price_of(settings: Settings, provider: str, model: str) -> ModelPrice:
    """Read as a gateway that starts now would. Raises ConfigurationRefused."""
    file = prices_file(settings)
    return _price(file.load() if file is not None else _NOTHING, GenaiPrices(utc_now), provider, model)


def every_price(settings: Settings) -> tuple[ModelPrice, ...]:
    """Of the model that runs use unless they say another, and of all that the file names. Raises ConfigurationRefused."""
    file = prices_file(settings)
    said, genai = file.load() if file is not None else _NOTHING, GenaiPrices(utc_now)
    names = dict.fromkeys([_configured(settings).lower(), *said.models, *said.covered])
    return tuple(_price(said, genai, *name.split("/", 1)) for name in names)


_NOTHING = PriceFile({}, {}, {}, "")


def _configured(settings: Settings) -> str:
    policy = FilePolicies(settings).current()
    base = policy if isinstance(policy, Policy) else base_of(settings)
    return f"{base.provider}/{base.model}"


def _price(file: PriceFile, genai: GenaiPrices, provider: str, model: str) -> ModelPrice:
    name = f"{provider}/{model}"
    said = file.find(provider, model)
    like = said.name if isinstance(said, Like) else None
    price = FilePrices(lambda: file, genai).find(provider, model)
    if price is None:
        return ModelPrice(name, Rating.UNKNOWN, like=like, way_out=_way_out(name, like))
    tiers = tuple(_row(above, rates) for above, rates in price.tiers if price.rating is Rating.PRICED)
    return ModelPrice(
        name, price.rating, price.version, file.plan_of(provider, model), like=like, tiers=tiers
    )


def _row(above: int, rates: Rates) -> TierRow:
    return TierRow(
        above,
        rates.fresh,
        rates.out,
        rates.cache_read,
        rates.cache_write,
        rates.cache_write_1h,
        rates.request,
    )


def _way_out(name: str, like: str | None) -> str:
    if like is not None:
        return f"{FILE} says that it costs what {like} does, which has no price: give a model that has, or figures"
    figures = f'"models": {{"{name}": {{"input": 0.00, "output": 0.00}}}}, in dollars for a million tokens'
    return f'no price is known; write it into the file that {FILE} names: {figures}; or "free": ["{name}"], if it is'
