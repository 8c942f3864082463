"""Compare this host's rows with its containers, as the reconciler does, and touch neither."""

import time
from collections.abc import Callable, Iterator, Sequence

from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.box.sandbox import LABEL_ATTEMPT, LABEL_ROLE, LABEL_RUN, ROLE_JOB
from pidispatch.domain.health.checkup import Differences, Finding, Grade, SeenBox, differences
from pidispatch.ports import BoxWatch
from pidispatch.store.runs.transitions import Runs

PATIENCE = 5.0  # seconds; a reconciler looks every two
MOST_NAMED = 10
LEAVE_IT = "a worker on this host sets it right within seconds: start `pidispatch worker`, or read its log"


def check_boxes(
    watch: BoxWatch,
    occupants: Runs,
    *,
    host: str,
    installation: str,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Finding]:
    """Only a difference that lasts is one. Raises EngineUnavailable, DatabaseUnavailable."""

    def look() -> Differences:
        boxes = [_seen(box) for box in watch.ours(installation) if box.labels.get(LABEL_ROLE) == ROLE_JOB]
        return differences(boxes, occupants.occupants(host))

    found = look()
    if found:
        sleep(PATIENCE)
        found = found.lasting(look())
    boxless = [*found.boxless.values(), *found.ended.values()]
    orphans = [*found.orphans.values()]
    yield _finding("boxes of runs", "every run that goes on has its container", boxless)
    yield _finding("runs of boxes", "every container of ours has a run that goes on", orphans)


def _finding(check: str, rule: str, wrong: Sequence[str]) -> Finding:
    if not wrong:
        return Finding(check, Grade.OK, rule)
    named = wrong[:MOST_NAMED]
    more = f"; and {len(wrong) - len(named):,} more" if len(wrong) > len(named) else ""
    return Finding(check, Grade.FAILED, "; ".join(named) + more, LEAVE_IT)


def _seen(box: BoxState) -> SeenBox:
    run, attempt = (_number(box.labels.get(label)) for label in (LABEL_RUN, LABEL_ATTEMPT))
    return SeenBox(box.container_id, box.name, run, attempt, alive=not box.ended)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
