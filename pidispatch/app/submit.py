"""Take a request for a run in, or start a schedule by hand, and follow the run until it ends."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from pidispatch.app.firing import ByHand, NotFired, entry_named
from pidispatch.app.installation import Installation
from pidispatch.app.verbs.queue import read_after, standing_of
from pidispatch.config import Settings
from pidispatch.config.environment import environment_for_others
from pidispatch.domain.triggers.inforce import ScheduleEntry
from pidispatch.errors import DatabaseUnavailable, ImageMissing
from pidispatch.flows.ingest import Ingest, LocalRequest, Submitted
from pidispatch.runtime.workspace import open_folder
from pidispatch.store.database import Database
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.read import history
from pidispatch.store.read.history import RunRecord
from pidispatch.store.read.queue import QueueStatus
from pidispatch.store.triggers.arrivals import Arrivals

__all__ = [
    "Desk",
    "LocalRequest",
    "NotFired",
    "QueueStatus",
    "RunRecord",
    "Submission",
    "desk",
    "entry_named",
]

PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Submission:
    """What became of a request, and what was true of the queue right after.

    The request is stored: where the rest could not be read, `run` and `queue` are None and `unread` says why.
    """

    submitted: Submitted
    run: RunRecord | None
    queue: QueueStatus | None
    unread: str | None = None


class Desk:
    """Where a person hands in requests and asks after them."""

    def __init__(self, database: Database, settings: Settings, ingest: Ingest) -> None:
        self._database = database
        self._settings = settings
        self._ingest = ingest
        self._by_hand = ByHand(settings.worker_name, ingest, clock=database.now)

    def submit(self, request: LocalRequest) -> Submission:
        """Raises FolderRefused (then nothing is left), EngineUnavailable, ImageMissing, DatabaseUnavailable."""
        return self._submission(request.ask.image, lambda: self._ingest.submit(request))

    def fire(self, entry: ScheduleEntry) -> Submission:
        """Start a schedule now. Raises as `submit`, and NotFired where its entry starts nothing."""
        return self._submission(entry.trigger.work.ask.image, lambda: self._by_hand.fire(entry))

    def _submission(self, image: str | None, submit: Callable[[], Submitted]) -> Submission:
        try:
            submitted = submit()
        except ImageMissing as error:
            way_out = "run `pidispatch image build`" if image is None else "build or load it"
            raise ImageMissing(
                f"the Docker engine has no image {image or self._settings.job_image}; {way_out}"
            ) from error
        run, unread = read_after(lambda: history.find_run(self._database, submitted.public_id))
        if run is None:
            return Submission(submitted, None, None, unread)
        queue, unread = read_after(lambda: standing_of(self._database, self._settings))
        return Submission(submitted, run, queue, unread)

    def follow(
        self, public_id: str, *, every: float = 0.5, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[RunRecord]:
        """The run again and again until it has ended; a Postgres that is away for a minute is waited for."""
        answered = time.monotonic()
        while True:
            try:
                run = history.find_run(self._database, public_id)
            except DatabaseUnavailable:
                if time.monotonic() - answered > PATIENCE_SECONDS:
                    raise
            else:
                answered = time.monotonic()
                yield run
                if run.ended:
                    return
            sleep(every)


def desk(here: Installation) -> Desk:
    """Raises ConfigurationRefused (Redis must be known too), SchemaDiffers, DatabaseUnavailable."""
    settings, bell, database = here.settings, here.bell, here.database
    installation = Hosts(database, host=here.host).installation(capacity=settings.concurrency)
    ingest = Ingest(
        host=here.host,
        arrivals=Arrivals(database),
        bell=bell,
        gitbox=here.runtime().git_box(installation, environment_for_others()),
        open_folder=partial(open_folder, worker_uid=os.geteuid()),
        default_image=settings.job_image,
        clock=database.now,
    )
    return Desk(database, settings, ingest)
