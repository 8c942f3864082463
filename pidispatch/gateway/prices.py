"""Find what a model costs."""

from typing import Protocol

from pidispatch.domain.rates import Price


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
