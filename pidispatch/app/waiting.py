"""Build the thread of a worker that looks after held runs."""

from pidispatch.config import Place, Settings
from pidispatch.domain.triggers.wait import WaitBounds
from pidispatch.ports import Bell
from pidispatch.services.waitcheck import GRACE_SECONDS, CheckPrograms
from pidispatch.store.database import Database
from pidispatch.store.runs.waits import Waits
from pidispatch.upkeep.waiting import WaitKeeper

SLACK_SECONDS = 3.0  # beside its time and its end: the start of the program, and writing down what it said


def wait_keeper(settings: Settings, database: Database, *, host: str, worker: str, bell: Bell) -> WaitKeeper:
    timeout = settings.wait_check_timeout.total_seconds()
    return WaitKeeper(
        host=host,
        waits=Waits(
            database, host=host, worker=worker, check_seconds=timeout + GRACE_SECONDS + SLACK_SECONDS
        ),
        # The home of the user that we are, not of whoever started us.
        checks=CheckPrograms(timeout=timeout, home=Place.here({}).user_home),
        programs=settings.wait_programs,
        bounds=WaitBounds(
            interval=settings.wait_interval,
            wait_max=settings.wait_max,
            after_max=settings.wait_after_max,
            checks_max=settings.wait_max_checks,
            faults_max=settings.wait_max_faults,
        ),
        slots=settings.check_slots,
        bell=bell,
        clock=database.now,
    )
