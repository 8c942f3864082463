"""Admit: look at the next due run, check what needs no lock, then ask for the one transaction."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from pidispatch.domain.identity import folder_mutex
from pidispatch.domain.laps import Laps
from pidispatch.domain.limits import RunCap
from pidispatch.domain.run import Claim, Waiting
from pidispatch.errors import EngineUnavailable, FolderRefused, GatewayUnavailable
from pidispatch.ports import (
    Admissions,
    Admitted,
    Deferred,
    Doors,
    Images,
    NoRoom,
    OpenFolder,
    Passed,
    Ready,
    Refused,
)

log = structlog.get_logger(__name__)

LOOKS = 50  # runs looked at for one bell; the reconciler rings again for the rest


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a run uses where it asks for nothing."""

    provider: str
    model: str
    image: str
    max_turns: int
    max_tokens: int | None


class AdmissionGate:
    """Implements `ports.Gate`."""

    def __init__(
        self,
        *,
        host: str,
        admissions: Admissions,
        images: Images,
        doors: Doors,
        open_folder: OpenFolder,
        defaults: Defaults,
        caps: Sequence[RunCap],
    ) -> None:
        self._host = host
        self._admissions = admissions
        self._images = images
        self._doors = doors
        self._open_folder = open_folder
        self._defaults = defaults
        self._caps = caps

    def admit(self) -> Claim | None:
        laps = Laps(time.monotonic)
        passed: list[int] = []
        for _ in range(LOOKS):
            run = self._admissions.next_due(passed)
            laps.lap("look")
            if run is None:
                return None
            passed.append(run.run_id)
            match self._try(run, laps):
                case Admitted(claim):
                    log.info(
                        "admitted", run=run.public_id, attempt=claim.attempt, milliseconds=laps.milliseconds()
                    )
                    return claim
                case NoRoom():
                    return None
                case Deferred() | Refused() | Passed() as answer:
                    log.info("not_admitted", run=run.public_id, answer=str(answer))
        return None

    def warm(self) -> None:
        """Open this thread's way to the database and the engine. Raises DatabaseUnavailable, EngineUnavailable."""
        self._admissions.next_due([])
        self._images.facts(self._defaults.image)
        self._images.engine_id()

    def _try(self, run: Waiting, laps: Laps) -> Admitted | Deferred | Refused | Passed | NoRoom:
        checked = self._check(run, laps)
        match checked:
            case Ready():
                answer = self._admissions.admit(run, checked, self._caps)
                laps.lap("transaction")
                return answer
            case Deferred(cause):
                self._admissions.defer(run, cause=cause, seconds=10)
            case Refused(reason, why):
                self._admissions.refuse(
                    run, reason=reason, why=why, provider=self._provider(run), model=self._model(run)
                )
        return checked

    def _check(self, run: Waiting, laps: Laps) -> Ready | Deferred | Refused:
        """The wider the reach of a fault, the earlier it is told: image, provider, folder."""
        image = run.image or self._defaults.image
        try:
            facts = self._images.facts(image)
            laps.lap("image")
            if facts is None:
                return Refused("job-image-missing", None)
            if not facts.runs_here:
                return Refused("job-image-wrong-arch", None)
            provider = self._doors.provider(self._provider(run))
            laps.lap("provider")
            if provider is None:
                return Refused("provider-unconfigured", "provider-unknown")
            if not provider.credential:
                return Refused("provider-unconfigured", "no-credential")
            folder = self._open_folder(run.folder)
            laps.lap("folder")
            engine_id = self._images.engine_id()
            laps.lap("engine")
        except EngineUnavailable:
            return Deferred("docker-unreachable")
        except GatewayUnavailable:
            return Deferred("gateway-unreachable")
        except FolderRefused as error:
            return Refused(error.reason, None)
        return Ready(
            provider=provider.name,
            model=self._model(run),
            image=image,
            image_id=facts.image_id,
            engine_id=engine_id,
            max_turns=run.max_turns or self._defaults.max_turns,
            max_tokens=run.max_tokens or self._defaults.max_tokens,
            mutex=folder_mutex(self._host, folder.device, folder.inode),
        )

    def _provider(self, run: Waiting) -> str:
        return run.provider or self._defaults.provider

    def _model(self, run: Waiting) -> str:
        return run.model or self._defaults.model
