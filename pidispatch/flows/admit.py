"""Look at the next due run, have it checked, then ask for the one transaction."""

import time
from collections.abc import Callable
from datetime import timedelta

import structlog

from pidispatch.domain.limits.admission import (
    Admitted,
    Answer,
    Deferred,
    Facts,
    NoRoom,
    Passed,
    Ready,
    Refused,
)
from pidispatch.domain.limits.policy import Policy
from pidispatch.domain.runs.run import Claim, Waiting
from pidispatch.flows.checks import CheckPass, Checks, Laps
from pidispatch.ports import Images, Notes, Policies
from pidispatch.store.admission.transaction import Admissions

log = structlog.get_logger(__name__)

LOOKS = 50  # runs looked at for one bell; the reconciler rings again for the rest
ASK_AGAIN = timedelta(seconds=10)  # when a part that did not answer is asked again


class AdmissionGate:
    """Implements `ports.Gate`. `may_admit`: whether this machine stands for its host's name."""

    def __init__(
        self,
        *,
        admissions: Admissions,
        policies: Policies,
        images: Images,
        notes: Notes,
        checks: Checks,
        may_admit: Callable[[], bool],
    ) -> None:
        self._admissions = admissions
        self._policies = policies
        self._images = images
        self._notes = notes
        self._checks = checks
        self._may_admit = may_admit
        self._synced: tuple[dict[str, int], int] | None = None

    def admit(self) -> Claim | None:
        if not self._may_admit():
            return None
        laps = Laps(time.monotonic)
        passed: list[int] = []
        for _ in range(LOOKS):
            policy = self._policies.current()
            self._sync(policy)
            run = self._admissions.next_due(passed)
            laps.lap("look")
            if run is None:
                return None
            passed.append(run.run_id)
            match self._try(run, policy, laps):
                case Admitted(claim):
                    self._say_admitted(run, claim, laps)
                    return claim
                case NoRoom():
                    return None
                case Deferred() | Refused() | Passed() as answer:
                    log.info("not_admitted", run=run.public_id, answer=str(answer))
        return None

    def warm(self) -> None:
        """Open this thread's way to the database and the engine. Raises DatabaseUnavailable, EngineUnavailable."""
        policy = self._policies.current()
        if isinstance(policy, Policy):
            self._sync(policy, anew=True)
            self._images.facts(policy.image)
        self._images.engine_id()

    def _sync(self, policy: Policy | Refused, *, anew: bool = False) -> None:
        """A changed bound must reach the look-ups, or they would go on offering, or hiding, what it concerns."""
        if isinstance(policy, Refused):
            return
        bounds = {key: row.concurrent for key, row in policy.by_scope.items() if row.concurrent is not None}
        if anew or self._synced != (bounds, policy.concurrency):
            self._admissions.sync(bounds, capacity=policy.concurrency)
            self._synced = (bounds, policy.concurrency)

    def _try(self, run: Waiting, policy: Policy | Refused, laps: Laps) -> Answer:
        if isinstance(policy, Refused):
            facts: Facts = {"gates": {"settings": policy.reason}}
            self._admissions.refuse(
                run, refusal=policy, provider=run.ask.provider, model=run.ask.model, facts=facts
            )
            return policy
        # An operator's word for one run is in force as it is; the windows say whether there is room for it.
        granted = policy.with_run_cap(run.last_cost_cap) if run.granted else policy
        in_force = granted.narrowed(cost_cap=run.last_cost_cap, models=run.ask.allowed_models)
        # What an earlier attempt reserved counts its own models alone.
        in_force = in_force.within(run.last_models)
        tried = CheckPass(run, in_force, laps)
        checked = self._checks.check(tried)
        match checked:
            case Ready():
                with self._notes.looking_at(run.run_id, run.epoch):
                    answer = self._admissions.admit(run, checked)
                laps.lap("transaction")
                return answer
            case Deferred(cause, until):
                again = until or run.now + ASK_AGAIN
                self._admissions.defer(run, cause=cause, until=again, facts=tried.facts)
            case Refused():
                self._admissions.refuse(
                    run, refusal=checked, provider=tried.provider, model=tried.model, facts=tried.facts
                )
        return checked

    @staticmethod
    def _say_admitted(run: Waiting, claim: Claim, laps: Laps) -> None:
        log.info("admitted", run=run.public_id, attempt=claim.attempt, milliseconds=laps.milliseconds())
