"""Test an event's labels against those that an entry names."""

from pidispatch.domain import words
from pidispatch.domain.event import Event
from pidispatch.domain.triggers import Kind, Labels
from pidispatch.domain.vocabulary import LABEL_ACTIONS

_ONLY_ADDED = (Kind.GITLAB, Kind.AZURE)


def label_found(event: Event, wanted: Labels) -> tuple[str, str | None] | str:
    """`("label", the label that matched)`, or why not.

    GitHub and Forgejo test all labels of the item, GitLab and Azure those that the event added. An entry that only
    shuts labels out asks for no label to be added: it looks at all of them everywhere.
    """
    positive = bool(wanted.any_of or wanted.all_of)
    if not positive and not wanted.none_of:
        return "label", None
    tested = event.labels
    if positive and event.forge in _ONLY_ADDED:
        tested = event.added or ()
    if positive and _changed_nothing(event):
        return words.NO_LABEL_CHANGE
    return _tested(set(tested), wanted)


def _changed_nothing(event: Event) -> bool:
    """A removal never fires, wherever the forge tells it from an addition."""
    if event.forge in _ONLY_ADDED:
        return not event.added
    return event.action in LABEL_ACTIONS and event.added == ()


def _tested(labels: set[str], wanted: Labels) -> tuple[str, str | None] | str:
    first = next((label for label in wanted.any_of if label in labels), None)
    if wanted.any_of and first is None:
        return words.NO_ALLOWLISTED_LABEL
    if not labels.issuperset(wanted.all_of) or not labels.isdisjoint(wanted.none_of):
        return words.NO_ALLOWLISTED_LABEL
    return "label", first or next(iter(wanted.all_of), None)
