"""What `dramatiq pidispatch.actors` loads: three short actors, and the threads of the worker process.

The only module that acts at import: it reads the settings, opens the services, and refuses to start (exit code 2,
with the reason on standard error) on a configuration or schema that does not fit.
"""

import os
import signal
import sys
from typing import TYPE_CHECKING

import dramatiq
import structlog

from pidispatch.app.loading import loading
from pidispatch.errors import PidispatchError
from pidispatch.queue.admission import take_claim
from pidispatch.queue.bells import FINISH, FIRST, LAST, LOOK, START, ends_of, queue_of
from pidispatch.services.child import VARIABLE as PARENT_PIPE
from pidispatch.services.child import exit_when_parent_dies
from pidispatch.services.execwrap import die_with_parent

if TYPE_CHECKING:
    from pidispatch.app.worker import WorkerApp

log = structlog.get_logger(__name__)


def _build() -> "WorkerApp":
    with loading():
        from pidispatch.app.logs import log_json
        from pidispatch.app.worker import build_worker
        from pidispatch.config.environment import read_settings
    log_json()
    die_with_parent(
        os.getppid(), signal.SIGTERM
    )  # dramatiq's master, killed hard, would leave this process behind
    if PARENT_PIPE in os.environ:
        exit_when_parent_dies(int(os.environ[PARENT_PIPE]))
    try:
        return build_worker(read_settings())
    except PidispatchError as error:
        print(f"pidispatch worker: {error}", file=sys.stderr)  # noqa: T201 - the log has no reader yet
        raise SystemExit(error.exit_code) from error


app = _build()
broker = app.broker
dramatiq.set_broker(broker)


@dramatiq.actor(broker=broker, actor_name=START, queue_name=queue_of(app.host), priority=LAST)
def start() -> None:
    """Prepare and start the run that the gate admitted for this message."""
    app.launcher.start(take_claim())


@dramatiq.actor(broker=broker, actor_name=FINISH, queue_name=ends_of(app.host), priority=FIRST)
def finish(run_id: int) -> None:
    """End a run whose box has ended."""
    try:
        app.finisher.finish(run_id)
    except PidispatchError as error:  # nothing was written; the reconciler rings again
        log.warning("not_finished", run=run_id, problem=str(error))


@dramatiq.actor(broker=broker, actor_name=LOOK, queue_name=ends_of(app.host), priority=FIRST)
def look() -> None:
    """Let the reconciler look at once: a run was asked to stop."""
    app.wake.set()
