"""The words that forges use for what happened, as far as entries of `triggers.json` depend on them."""

from collections.abc import Mapping
from dataclasses import dataclass

from pidispatch.domain.triggers.event import Event, Route
from pidispatch.domain.triggers.trigger import Kind

CLOSE_WORDS = frozenset({"closed", "close"})
LABEL_ACTIONS = frozenset({"labeled", "label_updated"})


@dataclass(frozen=True, slots=True)
class Words:
    """Actions by forge; None is any."""

    by_forge: Mapping[Kind, frozenset[str] | None]

    def allows(self, event: Event) -> bool:
        words = self.by_forge.get(event.forge, frozenset())
        return words is None or event.action in words


LABELLED = Words(
    {
        Kind.GITHUB: frozenset({"opened", "labeled", "reopened"}),
        Kind.FORGEJO: frozenset({"opened", "label_updated", "reopened"}),
        Kind.GITLAB: None,
        Kind.AZURE: frozenset({"created", "updated"}),
    }
)
SAID = Words(
    {
        Kind.GITHUB: frozenset({"created"}),
        Kind.FORGEJO: frozenset({"created"}),
        Kind.GITLAB: frozenset({"create"}),
        Kind.AZURE: None,
    }
)


def needs_authority(event: Event) -> bool:
    """Whether somebody's rights decide. On GitHub a label that was put on is itself the approval.

    An issue that was opened with its label proves nothing: a form may have put it on for a stranger.
    """
    if event.forge is not Kind.GITHUB:
        return True
    if event.route is Route.ISSUE:
        return event.action == "opened" or event.action in CLOSE_WORDS
    return event.action not in LABEL_ACTIONS
