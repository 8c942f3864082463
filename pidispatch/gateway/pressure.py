"""Hold calls back from a provider that has said it is busy."""

from datetime import datetime


class Pressure:
    """The providers that are busy, by name."""

    def busy_until(self, provider: str) -> datetime | None:
        """When its calls are let through again; None while they are."""
        del provider
        return None
