"""Join settings, overlay and limit files into the policy in force."""

from pidispatch.config import Settings
from pidispatch.domain.policy import Policy
from pidispatch.ports import Refused


class FilePolicies:
    """Implements `ports.Policies`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def current(self) -> Policy | Refused:
        settings = self._settings
        return Policy(
            provider=settings.provider,
            model=settings.model,
            image=settings.job_image,
            max_turns=settings.max_turns,
            max_tokens=settings.max_tokens,
            concurrency=settings.concurrency,
            daily_cap=settings.daily_cap,
            weekly_cap=settings.weekly_cap,
            monthly_cap=settings.monthly_cap,
            soft_hold_pct=settings.soft_hold_pct,
            daily_token_cap=settings.daily_token_cap,
        )
