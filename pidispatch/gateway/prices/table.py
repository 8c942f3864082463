"""Find what a model costs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from pidispatch.domain.providers.pricefigures import Like
from pidispatch.domain.providers.pricesfile import PriceFile
from pidispatch.domain.providers.rates import Price, lacks_request_fee


class Prices(Protocol):
    """What models cost now. Never the network: the figures come with the installation."""

    def find(self, provider: str, model: str) -> Price | None:
        """None when no price is known: then nothing may be spent on it under a dollar cap."""


class NoPrices:
    """No model has a price."""

    def find(self, provider: str, model: str) -> Price | None:
        del provider, model
        return None


NO_PRICES = NoPrices()


class FilePrices:
    """The operator's word, where there is one, else `beneath`. `current` is the file as it is now."""

    def __init__(self, current: Callable[[], PriceFile], beneath: Prices) -> None:
        self._current, self._beneath = current, beneath

    def find(self, provider: str, model: str) -> Price | None:
        found = self._find(provider, model)
        return None if found is None or lacks_request_fee(model, found) else found

    def _find(self, provider: str, model: str) -> Price | None:
        said = self._current().find(provider, model)
        if not isinstance(said, Like):
            return said or self._beneath.find(provider, model)
        like = self._beneath.find(said.provider, said.model)
        return None if like is None else replace(like, version=f"{said.version}, {like.version}", window=None)
