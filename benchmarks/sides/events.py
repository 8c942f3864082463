"""A file of many triggers for one forge, and the events that are asked of it."""

from collections.abc import Iterable

from pidispatch.domain.forges.github import GITHUB
from pidispatch.domain.runs.ask import Ask
from pidispatch.domain.triggers.event import Event, Item, Route
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    IssueEvent,
    LabelEvent,
    Labels,
    On,
    PullRequestEvent,
    Trigger,
    Triggers,
    Work,
)

LONGEST_COMMENT = 65_536  # what GitHub takes


def file_of(many: int) -> Triggers:
    """A quarter each of labels, comments, pull requests and closed issues, every one with words of its own."""
    return Triggers(
        tuple(
            Trigger(n, n + 1, _on(n), Work("github", Ask(flow=f"flow-{n}")), id=f"t{n}") for n in range(many)
        )
    )


def _on(number: int) -> On:
    match number % 4:
        case 0:
            return LabelEvent(Labels((f"do-{number}", f"also-{number}"), none_of=("stop",)))
        case 1:
            return CommentEvent(f"@pi-{number}")
        case 2:
            return PullRequestEvent(("opened", "synchronize"), Labels((f"do-{number}",)))
        case _:
            return IssueEvent(("closed",), number + 1, once=True)


def events(many: int) -> dict[str, Event]:
    """Each goes through every entry: it matches the last of its kind, or none."""
    labels = tuple(f"label-{n}" for n in range(20))
    last = many - 4
    return {
        "a label that is the last entry's": _event(Route.ISSUE, "labeled", labels=(*labels, f"do-{last}")),
        "a label of no entry": _event(Route.ISSUE, "labeled", labels=labels),
        "a comment with the last entry's phrase": _event(
            Route.COMMENT, "created", comment=f"Please, @pi-{last + 1} flow-7: now".encode()
        ),
        "a comment as long as may be, with none": _event(
            Route.COMMENT, "created", comment=(b"Please, @pi: do it. " * LONGEST_COMMENT)[:LONGEST_COMMENT]
        ),
        "a pull request of no entry": _event(Route.PULL_REQUEST, "opened", labels=labels),
        "an issue that is closed, of no entry": _event(Route.ISSUE, "closed"),
    }


def _event(route: Route, action: str, *, labels: tuple[str, ...] = (), comment: bytes | None = None) -> Event:
    return Event(
        forge=GITHUB,
        delivery_id="d",
        name=route,
        route=route,
        action=action,
        item=Item.PULL_REQUEST if route is Route.PULL_REQUEST else Item.ISSUE,
        repo="acme/web",
        number=7,
        labels=labels,
        added=labels,
        comment=comment,
        sender_id="1",
        allowed=True,
    )


def bare_loop(event: Event, entries: Iterable[Trigger]) -> int:
    """The floor of anything that looks at each entry: how many are of the event's forge and armed."""
    found = 0
    for entry in entries:
        if entry.work.kind == event.forge.name and entry.disarmed is None:
            found += 1
    return found
