"""Test what an event says against what an entry asks for: action, number, labels, phrase, review."""

from pidispatch.domain import words
from pidispatch.domain.event import Event, Route
from pidispatch.domain.labels import label_found
from pidispatch.domain.phrases import has_phrase
from pidispatch.domain.triggers import (
    CommentEvent,
    Cron,
    IssueEvent,
    Kind,
    LabelEvent,
    PullRequestEvent,
    Trigger,
)
from pidispatch.domain.verdicts import Gate, Stopped
from pidispatch.domain.vocabulary import CLOSE_WORDS, LABELLED, SAID

Found = tuple[str, str | None]
"""The type and the word of what matched: a label, a phrase, an action."""


def content_of(event: Event, trigger: Trigger) -> Stopped | Found:
    match trigger.on:
        case LabelEvent(labels):
            if not LABELLED.allows(event):
                return Stopped(trigger, Gate.ACTION, words.ACTION_NOT_ACTIONABLE)
            found = label_found(event, labels)
            return found if isinstance(found, tuple) else Stopped(trigger, Gate.CONTENT, found)
        case CommentEvent(phrase):
            if not SAID.allows(event):
                return Stopped(trigger, Gate.ACTION, words.ACTION_NOT_ACTIONABLE)
            said = has_phrase(text_of(event.comment), phrase)
            return ("comment", phrase) if said else Stopped(trigger, Gate.CONTENT, words.NO_TRIGGER_PHRASE)
        case IssueEvent(actions, number):
            return _numbered(event, trigger, actions, number) or ("issue", event.action)
        case PullRequestEvent() as on:
            return _pull_request(event, trigger, on)
        case Cron():
            return Stopped(trigger, Gate.EVENT, words.OTHER_EVENT)


def _numbered(event: Event, trigger: Trigger, actions: tuple[str, ...], number: int | None) -> Stopped | None:
    if event.action not in actions:
        closes = isinstance(trigger.on, IssueEvent) or set(actions) <= CLOSE_WORDS
        return Stopped(
            trigger, Gate.ACTION, words.NO_MATCHING_CLOSE_TRIGGER if closes else words.NO_MATCHING_PR_TRIGGER
        )
    if number is not None and number != event.number:
        return Stopped(trigger, Gate.NUMBER, words.CLOSE_NUMBER_NOT_MATCHED)
    return None


def _pull_request(event: Event, trigger: Trigger, on: PullRequestEvent) -> Stopped | Found:
    stopped = _numbered(event, trigger, on.actions, on.number)
    if stopped is not None:
        return stopped
    if _says_nothing(event):
        return Stopped(trigger, Gate.CONTENT, words.NO_REVIEW_BODY)
    found = label_found(event, on.labels)
    if not isinstance(found, tuple):
        reason = words.NO_MATCHING_PR_TRIGGER if found == words.NO_ALLOWLISTED_LABEL else found
        return Stopped(trigger, Gate.CONTENT, reason)
    if on.review_states and event.action == "review_submitted" and event.review_state not in on.review_states:
        return Stopped(trigger, Gate.CONTENT, words.REVIEW_STATE_NOT_MATCHED)
    by_label = event.forge is Kind.GITLAB and (on.labels.any_of or on.labels.all_of)
    return found if by_label else ("pull_request", event.action)


def _says_nothing(event: Event) -> bool:
    """A review that only comments, without a word of its own: its comments on lines are another event."""
    commented = event.action == "review_submitted" and event.review_state == "commented"
    return commented and not (event.review_body or b"").strip()


def refused_person(event: Event) -> str:
    if event.action in CLOSE_WORDS and event.route is not Route.COMMENT:
        return words.CLOSER_NOT_ALLOWED
    if event.action == "review_submitted":
        return words.REVIEW_AUTHOR_NOT_ALLOWED
    return words.PR_AUTHOR_NOT_ALLOWED if event.route is Route.PULL_REQUEST else words.AUTHOR_NOT_ALLOWED


def text_of(comment: bytes | None) -> str:
    return (comment or b"").decode("utf-8", "replace")
