"""Read what a run's container prints, for people."""

import codecs
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from pidispatch.app.installation import Installation
from pidispatch.app.secrets import known_secrets
from pidispatch.domain.runs.run import State
from pidispatch.domain.text.redaction import Redactor
from pidispatch.errors import GatewayUnavailable, PidispatchError
from pidispatch.ports import Redact
from pidispatch.store.database import Database
from pidispatch.store.read import detail as rundetail
from pidispatch.store.read import history
from pidispatch.store.read.detail import RunDetail

# Everything that moves a cursor, hides, or turns the direction of writing; line ends and tabs stay.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f]"
)
CONTEXT = 2048  # characters before a piece with which a secret that is split between two is still known
BEFORE_A_BOX = (State.QUEUED, State.DEFERRED, State.HELD, State.ADMITTED, State.PREPARING)


class OnAnotherHost(PidispatchError):
    """The container is another machine's."""


class SecretsUnknown(PidispatchError):
    """The gateway alone knows the providers' keys, so without it nobody can say what to mask."""


@dataclass(frozen=True, slots=True)
class RunOutput:
    """Pieces of bounded size, as they come."""

    texts: Iterator[str]


@dataclass(frozen=True, slots=True)
class NotYet:
    name: str
    state: str


@dataclass(frozen=True, slots=True)
class Gone:
    name: str
    state: str


def output_of(
    here: Installation, name: str, *, follow: bool, sleep: Callable[[float], None] = time.sleep
) -> RunOutput | NotYet | Gone:
    """The output of the run's last container, with the secrets masked that rows mask. With `follow`, wait for one.

    Raises NoSuchRun, OnAnotherHost, EngineUnavailable, SecretsUnknown (also from the texts), and as `Installation.database`.
    """
    run_id = history.find_run(here.database, name).id
    found = _with_container(here.database, run_id, follow=follow, sleep=sleep)
    run = found.run
    container = found.attempts[-1].container_id if found.attempts else None
    if run.host is not None and run.host != here.host and not run.ended:
        raise OnAnotherHost(f"{run.public_id} runs on {run.host}; ask for its output there")
    boxes = here.runtime().boxes
    if container is None or boxes.inspect(container) is None:
        return (NotYet if run.state in BEFORE_A_BOX else Gone)(run.public_id, run.state)
    mask = masks(here)
    mask(b"\n")  # without a gateway, say so before the first line
    return RunOutput(masked(seen(boxes.output(container, follow=follow)), mask))


def masks(here: Installation) -> Redact:
    """What this process knows, and what the gateway alone knows."""
    own, doors = Redactor(known_secrets(here.settings)), here.gateway

    def mask(data: bytes) -> bytes:
        try:
            return doors.redact(own.data(data))
        except GatewayUnavailable as error:
            raise SecretsUnknown(
                f"the output may hold secrets that only the gateway knows, and {error}; start it, or read the container's"
                " output as it is with `docker logs`"
            ) from error

    return mask


def masked(texts: Iterable[str], mask: Redact) -> Iterator[str]:
    """The texts without secrets, each as soon as it comes: also those that are split between two or spelled out slowly.

    What was shown of a secret before it could be known as one is less than rows show of any.
    """
    before = ""
    for text in texts:
        told, found = (mask(each.encode()).decode(errors="replace") for each in (before, before + text))
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(told, found, strict=False)))
        yield found[same:]
        before = (before + text)[-CONTEXT:]


def seen(pieces: Iterable[bytes]) -> Iterator[str]:
    """The pieces as text without what a terminal would obey; a character may be split between two of them."""
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    for piece in pieces:
        yield UNSEEN.sub("", decoder.decode(piece))
    yield UNSEEN.sub("", decoder.decode(b"", final=True))


def _with_container(
    database: Database, run_id: int, *, follow: bool, sleep: Callable[[float], None]
) -> RunDetail:
    while True:
        found = rundetail.run_detail(database, run_id)
        if not follow or found.run.state not in BEFORE_A_BOX:
            return found
        sleep(0.5)
