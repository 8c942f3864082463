"""Arrivals for tests: a forge's runs, and those of a folder."""

from itertools import count

from pidispatch.domain.forges.github import GITHUB
from pidispatch.domain.runs.ask import Ask
from pidispatch.domain.runs.run import NewRun
from pidispatch.domain.triggers.arrival import Arrival, Delivery
from pidispatch.domain.triggers.event import Item
from pidispatch.domain.triggers.subject import RunSubject, folder_subject, forge_subject
from pidispatch.domain.triggers.trigger import WhileRunning
from tests.store.builders import HOST

ISSUE = forge_subject(GITHUB, "acme/web", 7, Item.ISSUE, "fix")
_numbers = count(1)


def a_delivery(source: str = "github", *, delivery_id: str | None = None, **more: object) -> Delivery:
    delivery_id = delivery_id or f"{source}-{next(_numbers)}"
    return Delivery(source, delivery_id, event="issues", repo="acme/web", number=7, **more)  # type: ignore[arg-type]


def an_arrival(
    source: str = "github",
    *,
    subject: RunSubject = ISSUE,
    policy: WhileRunning = WhileRunning.QUEUE,
    body: bytes = b"please",
    one_shot: str | None = None,
    delivery_id: str | None = None,
    window: float = 60.0,
    replicas: int | None = None,
    **more: object,
) -> Arrival:
    delivery = a_delivery(source, delivery_id=delivery_id, **more)
    run = NewRun(
        public_id=f"gh-{delivery.delivery_id}",
        kind="github",
        folder=b"/repos/clone",  # until forges bring their own, so that the admission has one to lock
        folder_given=b"/repos/clone",
        task=b"",
        task_bytes=0,
        event=b'{"source":"github"}',
        title=b"A title",
        body=body,
        scope="acme/web",
        target="acme/web#7",
        pinned_host=HOST,
        trigger_type="label",
        trigger_id="t1",
        trigger_index=3,
        ask=Ask(flow="fix"),
        one_shot=one_shot,
    )
    return Arrival(delivery, subject, run, policy, window, replicas)


def a_folder_arrival(source: str, *, task: bytes = b"work", **more: object) -> Arrival:
    delivery = Delivery(source, f"{source}-{next(_numbers)}")
    run = NewRun(
        public_id=f"local-{delivery.delivery_id}",
        folder=b"/repos/x",
        folder_given=b"/repos/x",
        task=task,
        task_bytes=len(task),
        event=b"{}",
        scope="folder:x",
        target="local:x",
        pinned_host=HOST,
        mutex=f"inode:{HOST}:x",
        ask=Ask(flow="fix"),
    )
    return Arrival(delivery, folder_subject("folder:x", "fix", task), run, **more)  # type: ignore[arg-type]
