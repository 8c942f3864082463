"""Events and entries for tests, one line each."""

from pidispatch.domain.forges.gitlab import GITLAB
from pidispatch.domain.runs.ask import Ask
from pidispatch.domain.triggers.event import Event, Item, Route
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Disarmed,
    IssueEvent,
    LabelEvent,
    Labels,
    PullRequestEvent,
    Trigger,
    Triggers,
    Work,
)

ISSUE, COMMENT, PULL = Route
MARK = Disarmed("2026-11-29T12:00:00Z", "gh-1")


def an_event(forge, route, action, **more):
    values = {
        "delivery_id": "d1",
        "name": "issues",
        "item": Item.PULL_REQUEST if route is PULL else Item.ISSUE,
        "repo": "acme/web",
        "number": 7,
        "sender_id": "42",
        "allowed": True,
    }
    return Event(forge=forge, route=route, action=action, **{**values, **more})


def an_entry(forge, on, *, flow="fix", index=0, command=None, repository=None, **more):
    work = Work(forge.name, Ask(flow=None if command else flow, command=command), repository=repository)
    return Trigger(index=index, line=1, on=on, work=work, **more)


def a_file(*entries):
    return Triggers(tuple(entries))


def labels(any_of=(), all_of=(), none_of=()):
    return Labels(tuple(any_of), tuple(all_of), tuple(none_of))


def on_label(*any_of, all_of=(), none_of=()):
    return LabelEvent(labels(any_of, all_of, none_of))


def on_comment(phrase="@pi"):
    return CommentEvent(phrase)


def on_pull(*actions, **more):
    return PullRequestEvent(actions, **more)


def on_close(forge, number=None, *, once=False):
    return IssueEvent(("close",) if forge is GITLAB else ("closed",), number, once)
