"""Check what needs no lock: the image, the provider, the folder, the calendar; each with its reason."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from pidispatch.domain import words
from pidispatch.domain.box.facts import ImageFacts, LocalFolder
from pidispatch.domain.limits.admission import Deferred, Facts, Ready, Refused
from pidispatch.domain.limits.policy import Policy, Subject
from pidispatch.domain.providers.calls import ProviderFacts
from pidispatch.domain.providers.rates import Rating
from pidispatch.domain.runs import capabilities
from pidispatch.domain.runs.ask import Terms
from pidispatch.domain.runs.names import folder_mutex
from pidispatch.domain.runs.run import Waiting
from pidispatch.domain.triggers.trigger import Disarmed
from pidispatch.errors import EngineUnavailable, FolderRefused, GatewayUnavailable
from pidispatch.ports import CheckSkills, Doors, Images, Notes, OpenFolder


class Laps:
    """A stopwatch. `clock` tells seconds that never run backwards; a step's time counts from the one before it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self._steps: dict[str, float] = {}

    def lap(self, step: str) -> None:
        """End a step; a step that comes again is added up."""
        now = self._clock()
        self._steps[step] = self._steps.get(step, 0.0) + now - self._last
        self._last = now

    def milliseconds(self) -> dict[str, float]:
        return {step: round(seconds * 1000, 1) for step, seconds in self._steps.items()}


LOCAL = "local"
BUSY_LOOK = timedelta(minutes=5)  # a window may end early: another key, a gateway that was restarted
COUNTED_SOON = timedelta(seconds=1)


@dataclass
class CheckPass:
    """One look at one run: what it may use, and the gates it passed so far."""

    run: Waiting
    policy: Policy
    laps: Laps
    rating: Rating = Rating.UNKNOWN
    facts: Facts = field(default_factory=lambda: {"gates": {}})

    @property
    def provider(self) -> str:
        return self.run.ask.provider or self.policy.provider

    @property
    def model(self) -> str:
        return self.run.ask.model or self.policy.model

    @property
    def image(self) -> str:
        return self.run.ask.image or self.policy.image

    def passed(self, gate: str, seen: object) -> None:
        self.facts["gates"][gate] = seen
        self.laps.lap(gate)

    def bounds(self) -> dict[str, object]:
        """What is in force for this run alone, for the record."""
        models = None if self.policy.allowed_models is None else list(self.policy.allowed_models)
        return {"models": models, "cost_cap": self.policy.max_cost_micros}


def _seen_of(provider: ProviderFacts) -> dict[str, object]:
    seen = {"api": provider.api, "key": provider.credential, "price": str(provider.rating)}
    if provider.busy_until is not None:
        seen["busy_until"] = provider.busy_until.isoformat()
    return seen


def _no_file(_key: str, _run: str) -> Disarmed | None:
    return None


class Checks:
    """What is asked of a run before the one transaction.

    `held_back` tells of a run's breaker, as `ports.Breakers` does, with all endings counted. `mark` tells the mark in the
    file that holds a one-shot back from a run, by both keys. `check_skills` looks at the skills that a run is to be given.
    `lacks_room` tells in words which file system is too full for a run in this folder, None when none is.
    """

    def __init__(
        self,
        *,
        host: str,
        images: Images,
        doors: Doors,
        open_folder: OpenFolder,
        notes: Notes,
        held_back: Callable[[int], str | None],
        check_skills: CheckSkills,
        mark: Callable[[str, str], Disarmed | None] = _no_file,
        lacks_room: Callable[[str], str | None] = lambda _folder: None,
    ) -> None:
        self._host = host
        self._held_back = held_back
        self._check_skills = check_skills
        self._mark = mark
        self._lacks_room = lacks_room
        self._images = images
        self._doors = doors
        self._open_folder = open_folder
        self._notes = notes

    def check(self, tried: CheckPass) -> Ready | Deferred | Refused:
        """Its trigger; then, the wider a fault's reach the earlier it is told: image, provider, folder, calendar."""
        try:
            return self._check_parts(tried)
        except EngineUnavailable:
            return Deferred(words.DOCKER_UNREACHABLE)
        except GatewayUnavailable:
            return Deferred(words.GATEWAY_UNREACHABLE)
        except FolderRefused as error:
            return Refused(error.reason, None)

    def _check_parts(self, tried: CheckPass) -> Ready | Deferred | Refused:
        held_back = self._breaker(tried) or self._spent(tried)
        if held_back is not None:
            return held_back
        image = self._image(tried)
        if isinstance(image, Refused):
            return image
        tried.passed("models", tried.bounds())
        if not tried.policy.allows(tried.provider, tried.model):
            return Refused(words.MODEL_NOT_ALLOWED, None)
        held_back = self._provider(tried)
        if held_back is not None:
            return held_back
        if tried.run.ask.skills_dir is not None:
            self._check_skills(tried.run.ask.skills_dir)
        engine_id = self._images.engine_id()
        tried.laps.lap("engine")
        with self._notes.looking_at(tried.run.run_id, tried.run.epoch):
            folder = self._open_folder(tried.run.folder)
            tried.passed("folder", {"owner": folder.uid})
            full = self._lacks_room(folder.path)
            if full is not None:
                tried.passed("disk", full)
                return Deferred(words.DISK_LOW)
            subject = self._subject(tried, folder)
            held_back = self._calendar(tried, subject)
            if held_back is not None:
                return held_back
            return self._ready(tried, subject, folder, image.image_id, engine_id)

    def _image(self, tried: CheckPass) -> ImageFacts | Refused:
        facts = self._images.facts(tried.image)
        tried.passed("image", None if facts is None else facts.image_id)
        if facts is None:
            return Refused(words.JOB_IMAGE_MISSING, None)
        if not facts.runs_here:
            return Refused(words.JOB_IMAGE_WRONG_ARCH, None)
        lacking = capabilities.lacking(
            facts.labels, capabilities.needed_by(tried.run.ask, replicas=tried.run.replicas)
        )
        return facts if lacking is None else Refused(lacking, None)

    def _provider(self, tried: CheckPass) -> Deferred | Refused | None:
        """Its key is there and not held back, and what its model costs is known wherever dollars are bounded."""
        run, now = tried.run, tried.run.now
        provider = self._doors.provider(tried.provider, tried.model, run.run_id)
        tried.passed("provider", None if provider is None else _seen_of(provider))
        if provider is None:
            return Refused(words.PROVIDER_UNCONFIGURED, words.PROVIDER_UNKNOWN)
        tried.rating = provider.rating
        if not provider.credential:
            oauth = provider.lacks == words.OAUTH_LOGIN
            return Refused(words.PROVIDER_UNCONFIGURED, words.OAUTH_LOGIN if oauth else words.NO_CREDENTIAL)
        if tried.policy.max_cost_micros is not None and provider.rating is Rating.UNKNOWN:
            return Refused(words.COST_CAP_UNENFORCEABLE, words.NO_PRICE)
        if provider.busy_until is not None and provider.busy_until > now:
            return Deferred(words.PROVIDER_BUSY, min(provider.busy_until, now + BUSY_LOOK))
        return None

    def _breaker(self, tried: CheckPass) -> Deferred | Refused | None:
        """What waited when its trigger's breaker opened does not start either."""
        word = tried.run.breaker
        if word == words.BREAKER_COUNTING:
            word = self._held_back(tried.run.run_id)
        if word is None:
            return None
        tried.passed("breaker", word)
        return (
            Deferred(word, tried.run.now + COUNTED_SOON)
            if word == words.BREAKER_COUNTING
            else Refused(words.BREAKER_OPEN, None)
        )

    def _spent(self, tried: CheckPass) -> Refused | None:
        """A look before anything is asked of others; the transaction decides between two at once."""
        run = tried.run
        if run.one_shot is None:
            return None
        mark = self._mark(run.one_shot, run.public_id)
        if run.spent_by is None and mark is None:
            return None
        by = run.spent_by or (None if mark is None else mark.job_id)
        at = None if mark is None else mark.at
        tried.passed("one-shot", {"key": run.one_shot, "spent_by": by, "at": at})
        return Refused(
            words.ONCE_ALREADY_SPENT,
            words.BY_ANOTHER_RUN if run.spent_by is not None else words.BY_A_MARK_IN_THE_FILE,
        )

    def _calendar(self, tried: CheckPass, subject: Subject) -> Deferred | Refused | None:
        until = tried.policy.paused_until(subject, tried.run.now)
        tried.passed("pause-windows", None if until is None else until.isoformat())
        if until is not None:
            return Deferred(words.PAUSE_WINDOW, until)
        if tried.policy.lacks_run_cap(subject):
            return Refused(words.CONFIG_REFUSED, words.DOLLAR_WINDOW_WITHOUT_RUN_CAP)
        return None

    def _subject(self, tried: CheckPass, folder: LocalFolder) -> Subject:
        run = tried.run
        return Subject(
            scope=run.scope,
            name=run.folder_given.decode(errors="surrogateescape"),
            resolved=folder.path,
            project=tried.policy.project_of(run.scope),
        )

    def _ready(
        self, tried: CheckPass, subject: Subject, folder: LocalFolder, image_id: str, engine_id: str
    ) -> Ready:
        policy, run = tried.policy, tried.run
        caps = policy.caps_for(subject, costs=tried.rating not in {Rating.FREE, Rating.PLAN})
        return Ready(
            terms=Terms(
                provider=tried.provider,
                model=tried.model,
                image=tried.image,
                max_turns=run.ask.max_turns or policy.max_turns,
                max_tokens=run.ask.max_tokens or policy.max_tokens,
                cost_cap_micros=policy.cost_cap_within(caps),
                allowed_models=policy.allowed_models,
            ),
            image_id=image_id,
            engine_id=engine_id,
            mutex=self._mutex(run, folder),
            caps=caps,
            capacity=policy.concurrency,
            concurrent=policy.concurrent_for(subject),
            project=subject.project,
            facts=tried.facts,
            basis=policy.basis,
            within=self._within(run, folder),
            owner=folder.uid if run.kind == LOCAL else None,
        )

    def _within(self, run: Waiting, folder: LocalFolder) -> Sequence[str]:
        """An agent in the folder around it could exchange this one, and each would see the other's half-done work."""
        if run.kind != LOCAL:
            return ()
        return [folder_mutex(self._host, *identity) for identity in folder.around]

    def _mutex(self, run: Waiting, folder: LocalFolder) -> str | None:
        """Runs of a forge take turns by their subject, or not at all: each works in a copy of its own."""
        if run.kind != LOCAL:
            return run.mutex
        return folder_mutex(self._host, folder.device, folder.inode)
