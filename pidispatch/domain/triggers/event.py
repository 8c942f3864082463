"""What happened at a forge, in one form for all of them; its text is untrusted, and bounded."""

from dataclasses import dataclass, field
from enum import StrEnum

from pidispatch.domain import words
from pidispatch.domain.forges.forge import Forge

MOST_LABELS = 256
MOST_TEXT = 256 * 1024  # bytes of a title, a body or a comment; forges allow less than half of it
MOST_WORD = 512  # characters of a name: of a repository, a label, an action, a delivery


class Route(StrEnum):
    """What a delivery is about, which says what kind of entry may match it."""

    ISSUE = "issue"
    COMMENT = "comment"
    PULL_REQUEST = "pull_request"


class Item(StrEnum):
    """What the run works on."""

    ISSUE = "issue"
    PULL_REQUEST = "pull_request"


@dataclass(frozen=True, slots=True)
class Event:
    """One delivery. `action` is the forge's own word, but `review_submitted` for GitHub's submitted review.

    `labels` are those of the item now; `added` those that this event added, None where the forge does not tell.
    `allowed` says whether the person whom this kind of event asks about may start runs (the author of a comment, an
    issue that is opened, a review or a pull request; who closed): None is not asked yet. `by_self`: it was this
    installation's own account. `repo` is None for a work item of Azure, which knows its `project` alone.
    `occurrence` names what happened the same from whatever source tells it, like `comment:123`.
    """

    forge: Forge
    delivery_id: str
    name: str
    route: Route
    action: str
    item: Item
    repo: str | None
    number: int | None
    labels: tuple[str, ...] = ()
    added: tuple[str, ...] | None = None
    comment: bytes | None = field(default=None, repr=False)
    review_state: str | None = None
    review_body: bytes | None = field(default=None, repr=False)
    sender_id: str | None = None
    by_self: bool = False
    allowed: bool | None = None
    title: bytes = field(default=b"", repr=False)
    body: bytes = field(default=b"", repr=False)
    project: str | None = None
    occurrence: str | None = None

    def __post_init__(self) -> None:
        """Cut what is too long. A label that is too long is no label of any entry, so it is left out."""
        for name in ("title", "body", "comment", "review_body"):
            text = getattr(self, name)
            if text is not None and len(text) > MOST_TEXT:
                object.__setattr__(self, name, text[:MOST_TEXT])
        for name in ("labels", "added"):
            words = getattr(self, name)
            if words is not None:
                object.__setattr__(self, name, _bounded(words))


def _bounded(labels: tuple[str, ...]) -> tuple[str, ...]:
    if len(labels) <= MOST_LABELS and all(len(label) <= MOST_WORD for label in labels):
        return labels
    return tuple(label for label in labels if len(label) <= MOST_WORD)[:MOST_LABELS]


def problem_of(event: Event) -> str | None:
    """Why nothing may match this event, whatever the entries say: a word of the drop reasons."""
    if event.sender_id is None:
        return words.MISSING_SENDER_ID
    if event.by_self:
        return words.SELF
    names = (event.delivery_id, event.name, event.action, event.sender_id, event.repo, event.project)
    if not event.delivery_id or any(name is not None and len(name) > MOST_WORD for name in names):
        return words.UNHANDLED_EVENT
    if event.number is None or not 1 <= event.number < 2**31:
        return words.MISSING_PULL_REQUEST if event.item is Item.PULL_REQUEST else words.MISSING_ISSUE_NUMBER
    return None


def needs_authority(event: Event) -> bool:
    """Whether somebody's rights decide; what approves by itself needs nobody's."""
    match event.route:
        case Route.ISSUE:
            return event.action not in event.forge.approving_issue_actions
        case Route.PULL_REQUEST:
            return event.action not in event.forge.approving_pull_request_actions
        case Route.COMMENT:
            return True
