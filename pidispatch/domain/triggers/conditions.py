"""Test what an event says against what an entry asks for: action, number, labels, phrase, review."""

import re
from collections.abc import Set as AbstractSet
from functools import lru_cache

from pidispatch.domain import words
from pidispatch.domain.forges.forge import REVIEW_SUBMITTED
from pidispatch.domain.triggers.event import Event, Route
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    IssueEvent,
    LabelEvent,
    Labels,
    PullRequestEvent,
    Trigger,
)
from pidispatch.domain.triggers.verdicts import MatchGate, Stopped


def label_found(event: Event, wanted: Labels) -> tuple[str, str | None] | str:
    """`("label", the label that matched)`, or why not.

    GitHub and Forgejo test all labels of the item, GitLab and Azure those that the event added. An entry that only
    shuts labels out asks for no label to be added: it looks at all of them everywhere.
    """
    positive = bool(wanted.any_of or wanted.all_of)
    if not positive and not wanted.none_of:
        return "label", None
    tested = event.labels
    if positive and event.forge.names_added_labels:
        tested = event.added or ()
    if positive and _changed_nothing(event):
        return words.NO_LABEL_CHANGE
    return _tested(set(tested), wanted)


def _changed_nothing(event: Event) -> bool:
    """A removal never fires, wherever the forge tells it from an addition."""
    if event.forge.names_added_labels:
        return not event.added
    return event.action == event.forge.labelled and event.added == ()


def _tested(labels: set[str], wanted: Labels) -> tuple[str, str | None] | str:
    first = next((label for label in wanted.any_of if label in labels), None)
    if wanted.any_of and first is None:
        return words.NO_ALLOWLISTED_LABEL
    if not labels.issuperset(wanted.all_of) or not labels.isdisjoint(wanted.none_of):
        return words.NO_ALLOWLISTED_LABEL
    return "label", first or next(iter(wanted.all_of), None)


HEAD = 4  # characters
FEW = 32  # phrases for which a search each is quicker


class Phrases:
    """Which of many phrases a text holds, without a search through the text for each."""

    def __init__(self, phrases: AbstractSet[str]) -> None:
        heads: dict[str, set[str]] = {}
        for phrase in phrases:
            heads.setdefault(phrase[:HEAD], set()).add(phrase)
        self._by_head = heads
        self._lengths = {head: sorted({len(each) for each in found}) for head, found in heads.items()}

    def said(self, text: str) -> AbstractSet[str]:
        found: set[str] = set()
        for head in self._heads(text):
            phrases, lengths = self._by_head[head], self._lengths[head]
            if len(phrases) <= FEW:
                found.update(phrase for phrase in phrases if phrase in text)
                continue
            at = text.find(head)
            while at >= 0:
                found.update(phrases & {text[at : at + length] for length in lengths})
                at = text.find(head, at + 1)
        return found

    def _heads(self, text: str) -> AbstractSet[str]:
        if len(self._by_head) <= FEW:
            return {head for head in self._by_head if head in text}
        short = {head for head in self._by_head if len(head) < HEAD and head in text}
        return short | (self._by_head.keys() & {text[at : at + HEAD] for at in range(len(text))})


_WORD = "A-Za-z0-9_-"
_FLOW = r"[a-z0-9_-]{1,64}"
_CLOSING = r"[.,;:!?)\]}>'\"*`]*"  # what may follow a flow's name in a sentence


def has_phrase(comment: str, phrase: str) -> bool:
    """Case-sensitive, anywhere; but `@pi` is not in `@pip`."""
    # Most phrases of a large file are not in a comment at all, and their patterns need not even be compiled.
    return phrase in comment and _searches(phrase)[0].search(comment) is not None


def summoned_flow(comment: str, phrase: str, flows: AbstractSet[str]) -> str | None:
    """The known flow that follows the first phrase that has a word behind it; None when that is no flow."""
    found = _searches(phrase)[1].search(comment)
    return found[1] if found is not None and found[1] in flows else None


@lru_cache(maxsize=1024)
def _searches(phrase: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The phrase, and the phrase with the first word behind it. Azure's comments are HTML: a tag ends a word."""
    ends = rf"(?![{_WORD}])" if re.search(rf"[{_WORD}]\Z", phrase) else ""
    said = re.escape(phrase) + ends
    word = rf"(?:({_FLOW})(?={_CLOSING}(?:\s|&nbsp;|<|\Z)))?"
    return re.compile(said), re.compile(rf"{said}(?:\s|&nbsp;)+(?=\S){word}")


Found = tuple[str, str | None]
"""The type and the word of what matched: a label, a phrase, an action."""


def content_of(event: Event, trigger: Trigger) -> Stopped | Found:
    match trigger.on:
        case LabelEvent(labels):
            if not is_one_of(event, event.forge.issue_changed):
                return Stopped(trigger, MatchGate.ACTION, words.ACTION_NOT_ACTIONABLE)
            found = label_found(event, labels)
            return found if isinstance(found, tuple) else Stopped(trigger, MatchGate.CONTENT, found)
        case CommentEvent(phrase):
            if not is_one_of(event, event.forge.commented):
                return Stopped(trigger, MatchGate.ACTION, words.ACTION_NOT_ACTIONABLE)
            said = has_phrase(text_of(event.comment), phrase)
            return (
                ("comment", phrase) if said else Stopped(trigger, MatchGate.CONTENT, words.NO_TRIGGER_PHRASE)
            )
        case IssueEvent(actions, number):
            return _numbered(event, trigger, actions, number) or ("issue", event.action)
        case PullRequestEvent() as on:
            return _pull_request(event, trigger, on)
        case Cron():
            return Stopped(trigger, MatchGate.EVENT, words.OTHER_EVENT)


def is_one_of(event: Event, actions: AbstractSet[str] | None) -> bool:
    return actions is None or event.action in actions


def _numbered(event: Event, trigger: Trigger, actions: tuple[str, ...], number: int | None) -> Stopped | None:
    if event.action not in actions:
        closes = isinstance(trigger.on, IssueEvent) or all(map(event.forge.closes, actions))
        return Stopped(
            trigger,
            MatchGate.ACTION,
            words.NO_MATCHING_CLOSE_TRIGGER if closes else words.NO_MATCHING_PR_TRIGGER,
        )
    if number is not None and number != event.number:
        return Stopped(trigger, MatchGate.NUMBER, words.CLOSE_NUMBER_NOT_MATCHED)
    return None


def _pull_request(event: Event, trigger: Trigger, on: PullRequestEvent) -> Stopped | Found:
    stopped = _numbered(event, trigger, on.actions, on.number)
    if stopped is not None:
        return stopped
    if _says_nothing(event):
        return Stopped(trigger, MatchGate.CONTENT, words.NO_REVIEW_BODY)
    found = label_found(event, on.labels)
    if not isinstance(found, tuple):
        reason = words.NO_MATCHING_PR_TRIGGER if found == words.NO_ALLOWLISTED_LABEL else found
        return Stopped(trigger, MatchGate.CONTENT, reason)
    if on.review_states and event.action == REVIEW_SUBMITTED and event.review_state not in on.review_states:
        return Stopped(trigger, MatchGate.CONTENT, words.REVIEW_STATE_NOT_MATCHED)
    by_label = event.forge.label_starts_pull_request and (on.labels.any_of or on.labels.all_of)
    return found if by_label else ("pull_request", event.action)


def _says_nothing(event: Event) -> bool:
    """A review that only comments, without a word of its own: its comments on lines are another event."""
    commented = event.action == REVIEW_SUBMITTED and event.review_state == "commented"
    return commented and not (event.review_body or b"").strip()


def refused_person(event: Event) -> str:
    if event.forge.closes(event.action) and event.route is not Route.COMMENT:
        return words.CLOSER_NOT_ALLOWED
    if event.action == REVIEW_SUBMITTED:
        return words.REVIEW_AUTHOR_NOT_ALLOWED
    return words.PR_AUTHOR_NOT_ALLOWED if event.route is Route.PULL_REQUEST else words.AUTHOR_NOT_ALLOWED


@lru_cache(maxsize=4)
def text_of(comment: bytes | None) -> str:
    return (comment or b"").decode("utf-8", "replace")
