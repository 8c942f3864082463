"""Tell the worker what this gateway knows of a provider, and of one of its models."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pidispatch.domain.rates import Rating
from pidispatch.gateway.pressure import Pressure
from pidispatch.gateway.prices import Prices
from pidispatch.gateway.providers import Providers
from pidispatch.ports import ProviderFacts


class Knowledge:
    """Answers what `ports.Doors` asks of providers on this side of the control socket."""

    def __init__(self, providers: Providers, prices: Prices, pressure: Pressure) -> None:
        self._providers, self._prices, self._pressure = providers, prices, pressure

    def busy(self) -> Mapping[str, datetime]:
        return self._pressure.busy()

    def facts(self, name: str, model: str | None, run: int | None = None) -> ProviderFacts | None:
        facts = self._providers.facts(name, model)
        if facts is None:
            return None
        price = None if model is None else self._prices.find(name, model)
        return replace(
            facts,
            rating=Rating.UNKNOWN if price is None else price.rating,
            busy_until=self._pressure.busy_until(name, model, run),
        )
