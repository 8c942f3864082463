"""Say in words at which gate an entry stopped an event, and why."""

from collections.abc import Callable, Mapping

from pidispatch.domain import words
from pidispatch.domain.contents import text_of
from pidispatch.domain.event import Event, Item
from pidispatch.domain.triggers import CommentEvent, Cron, IssueEvent, LabelEvent, PullRequestEvent, Trigger
from pidispatch.domain.verdicts import Stopped
from pidispatch.domain.words import Use, meaning
from pidispatch.entrypoints.cli.triggerwording import labels_in_words

LONGEST = 200  # characters of an event's word on one line


def problem_in_words(problem: str) -> str:
    """Why an event is dropped whatever the entries say."""
    return meaning(problem, Use.EVENT) or problem


def gate_name(stopped: Stopped) -> str:
    return stopped.gate.name.lower()


def reason_in_words(stopped: Stopped, event: Event) -> str:
    """One sentence without its end."""
    said = _WITH_NAMES.get(stopped.reason)
    return (
        (meaning(stopped.reason, Use.EVENT) or stopped.reason)
        if said is None
        else said(stopped.trigger, event)
    )


def _other_forge(trigger: Trigger, event: Event) -> str:
    if isinstance(trigger.on, Cron):
        return "a schedule: no event starts it"
    return f"it waits for {trigger.work.kind}, the event is of {event.forge}"


def _disarmed(trigger: Trigger, _: Event) -> str:
    mark = trigger.disarmed
    if mark is None:
        return "it was used up"
    by = "by hand" if mark.job_id is None else f"by {mark.job_id}"
    return f"it was used up at {mark.at}, as marked {by}"


def _other_event(trigger: Trigger, event: Event) -> str:
    match trigger.on:
        case LabelEvent():
            waits = "an issue's label"
        case IssueEvent():
            waits = "an issue"
        case CommentEvent():
            waits = "a comment"
        case PullRequestEvent():
            waits = "a pull request"
        case Cron():
            waits = "the clock"
    return f"it waits for {waits}, the event's route is {event.route}"


def _no_repository(_: Trigger, event: Event) -> str:
    if event.project is not None:
        return f"the event names project {_cut(event.project)} alone, and the entry has no run.repository"
    return "the event names no repository"


def _other_repository(trigger: Trigger, event: Event) -> str:
    repo = event.repo or f"{event.project}/{trigger.work.repository}"
    return f"it waits for {' or '.join(trigger.repos)}, the event is of {_cut(repo)}"


def _action(trigger: Trigger, event: Event) -> str:
    actions = getattr(trigger.on, "actions", ())
    waits = f": it waits for {' or '.join(actions)}" if actions else ""
    return f"the action {_cut(event.action)} does not start it{waits}"


def _number(trigger: Trigger, event: Event) -> str:
    return f"it waits for #{getattr(trigger.on, 'number', None)}, the event is of #{event.number}"


def _no_label(trigger: Trigger, event: Event) -> str:
    wanted = (
        labels_in_words(trigger.on.labels) if isinstance(trigger.on, LabelEvent | PullRequestEvent) else ""
    )
    there = f"labels: {', '.join(event.labels) or 'none'}"
    added = "" if event.added is None else f"; added: {', '.join(event.added) or 'none'}"
    return f"it waits for the label {wanted}, the event has {_cut(there + added)}"


def _phrase(trigger: Trigger, event: Event) -> str:
    wanted = trigger.on.phrase if isinstance(trigger.on, CommentEvent) else ""
    return f"the comment {_cut(repr(text_of(event.comment)))} does not hold {wanted!r} as a word of its own"


def _review(trigger: Trigger, event: Event) -> str:
    states = trigger.on.review_states if isinstance(trigger.on, PullRequestEvent) else ()
    return (
        f"it waits for a review that is {' or '.join(states)}, this one is {event.review_state or 'nothing'}"
    )


def _person(_: Trigger, event: Event) -> str:
    who = "who opened the pull request" if event.item is Item.PULL_REQUEST else "who wrote it"
    return f"{who} may not start runs"


# Where the entry and the event have names of their own to tell; the others are said as the table of words says them.
_WITH_NAMES: Mapping[str, Callable[[Trigger, Event], str]] = {
    words.OTHER_FORGE: _other_forge,
    words.DISARMED: _disarmed,
    words.OTHER_EVENT: _other_event,
    words.NO_REPOSITORY: _no_repository,
    words.OTHER_REPOSITORY: _other_repository,
    words.ACTION_NOT_ACTIONABLE: _action,
    words.NO_MATCHING_CLOSE_TRIGGER: _action,
    words.NO_MATCHING_PR_TRIGGER: lambda trigger, event: (
        _no_label(trigger, event)
        if event.action in getattr(trigger.on, "actions", ())
        else _action(trigger, event)
    ),
    words.CLOSE_NUMBER_NOT_MATCHED: _number,
    words.NO_ALLOWLISTED_LABEL: _no_label,
    words.NO_TRIGGER_PHRASE: _phrase,
    words.REVIEW_STATE_NOT_MATCHED: _review,
    words.PR_AUTHOR_NOT_ALLOWED: _person,
}


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
