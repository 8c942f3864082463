"""Say when triggers are held back, and let an operator end it."""

from datetime import timedelta

from pidispatch.app.actor import actor
from pidispatch.app.databases import opened
from pidispatch.config import Settings
from pidispatch.domain.triggers.breaker import Rules
from pidispatch.store.triggers import breakers
from pidispatch.store.triggers.breakers import BreakerRecord, NoSuchTrigger

__all__ = ["BreakerRecord", "NoSuchTrigger", "breaker_rules", "close"]


def breaker_rules(settings: Settings) -> Rules:
    return Rules(settings.breaker_failures, timedelta(seconds=settings.breaker_backoff))


def close(settings: Settings, trigger_id: str, *, reason: str | None) -> BreakerRecord | None:
    """What stood there, None when nothing did. Raises NoSuchTrigger, and what `opened` raises."""
    with opened(settings) as database:
        return breakers.close(database, trigger_id, actor=actor(settings), reason=reason)
