"""Parse an event that somebody wrote down, to ask what it would start."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

from pidispatch.domain.forges.forge import REVIEW_STATES, Forge
from pidispatch.domain.forges.table import FORGES, WITH_PROJECTS
from pidispatch.domain.limits.scopes import is_repository
from pidispatch.domain.text.fields import FileEntry, Report, root_entry
from pidispatch.domain.text.jsonfile import Number, read_json
from pidispatch.domain.triggers.event import MOST_LABELS, MOST_TEXT, MOST_WORD, Event, Item, Route

KEYS = (
    "forge", "delivery", "event", "route", "action", "item", "repo", "number", "labels", "added", "comment",
    "reviewState", "reviewBody", "sender", "allowed", "title", "body", "project",
)  # fmt: skip
_WANTED = 'an object with "forge", "route" and "action"'
_Word = TypeVar("_Word", bound=StrEnum)


def parse_event(content: bytes, file: str) -> Event:
    """The event of the file. Raises ConfigurationRefused with every problem.

    What a delivery may lack, the file may lack too: then the event is told as what such a delivery is.
    """
    report = Report(file)
    entry = root_entry(read_json(content, file), report, _WANTED)
    forge = _forge(entry)
    route = _one_of(entry, "route", list(Route))
    action = _word(entry, "action")
    item = _item(entry, route)
    event = Event(
        forge=forge or next(iter(FORGES.values())),
        delivery_id=_word(entry, "delivery", "test") or "",
        name=_word(entry, "event", route or "event") or "",
        route=route or Route.ISSUE,
        action=action or "",
        item=item,
        repo=_repo(entry),
        number=entry.whole("number", maximum=2**31 - 1),
        labels=_labels(entry, "labels") or (),
        added=_labels(entry, "added"),
        comment=_only_with(entry, route, Route.COMMENT, "comment"),
        review_state=_review_state(entry),
        review_body=_only_with(entry, route, Route.PULL_REQUEST, "reviewBody"),
        sender_id=_sender(entry),
        allowed=_flag(entry, "allowed"),
        title=_text(entry, "title") or b"",
        body=_text(entry, "body") or b"",
        project=_project(entry, forge),
    )
    entry.refuse_unknown(KEYS)
    report.close()
    return event


def _one_of(entry: FileEntry, name: str, words: Sequence[_Word]) -> _Word | None:
    """A word that must be there."""
    node = entry.node(name)
    found = next((word for word in words if node is not None and node.value == word.value), None)
    if found is None:
        entry.refuse(name, f"{_fault(entry, name)} one of {', '.join(words)}")
    return found


def _forge(entry: FileEntry) -> Forge | None:
    node = entry.node("forge")
    found = FORGES.get(node.value) if node is not None and isinstance(node.value, str) else None
    if found is None:
        entry.refuse("forge", f"{_fault(entry, 'forge')} one of {', '.join(FORGES)}")
    return found


def _fault(entry: FileEntry, name: str) -> str:
    return "must be" if name in entry.fields else "is missing: it must be"


def _word(entry: FileEntry, name: str, default: str | None = None) -> str | None:
    """A name. Without a default it must be there."""
    node = entry.node(name)
    if node is None and default is not None:
        return default
    word = node.value if node is not None else None
    if isinstance(word, str) and word.strip() and len(word) <= MOST_WORD:
        return word
    entry.refuse(name, f"{_fault(entry, name)} a text of 1 to {MOST_WORD} characters, as the forge writes it")
    return None


def _item(entry: FileEntry, route: Route | None) -> Item:
    usual = Item.PULL_REQUEST if route is Route.PULL_REQUEST else Item.ISSUE
    if entry.node("item") is None:
        return usual
    item = _one_of(entry, "item", list(Item))
    if route in {Route.ISSUE, Route.PULL_REQUEST} and item not in {None, usual}:
        entry.refuse("item", f"must be {usual} where route is {route}; leave it out, it is known from there")
    return item or usual


def _repo(entry: FileEntry) -> str | None:
    node = entry.node("repo")
    if node is None:
        return None
    name = node.value
    if isinstance(name, str) and len(name) <= MOST_WORD and is_repository(name):
        return name
    entry.refuse("repo", "must be a repository as owner/name, without the forge before it")
    return None


def _project(entry: FileEntry, forge: Forge | None) -> str | None:
    if entry.node("project") is None:
        return None
    if forge is not None and not forge.items_in_projects:
        entry.refuse(
            "project", f"goes with {WITH_PROJECTS} alone; name the repository of {forge.name} in repo"
        )
    return _word(entry, "project")


def _labels(entry: FileEntry, name: str) -> tuple[str, ...] | None:
    node = entry.node(name)
    if node is None:
        return None
    items = node.value if isinstance(node.value, list) else None
    found = [item.value for item in items or () if isinstance(item.value, str) and item.value.strip()]
    if items is None or len(found) != len(items):
        entry.refuse(name, 'must be a list of labels, each a text that is not empty, such as ["bug"]')
    elif len(found) > MOST_LABELS or any(len(label) > MOST_WORD for label in found):
        entry.refuse(
            name, f"must hold at most {MOST_LABELS} labels of at most {MOST_WORD} characters; leave some out"
        )
    return tuple(found)


def _only_with(entry: FileEntry, route: Route | None, wanted: Route, name: str) -> bytes | None:
    if entry.node(name) is not None and route not in {None, wanted}:
        entry.refuse(name, f"goes with route {wanted} alone; leave it out, or mend route")
    return _text(entry, name)


def _text(entry: FileEntry, name: str) -> bytes | None:
    node = entry.node(name)
    if node is None:
        return None
    text = node.value.encode() if isinstance(node.value, str) else None
    if text is None or len(text) > MOST_TEXT:
        entry.refuse(name, f"must be a text of at most {MOST_TEXT // 1024} KiB")
        return None
    return text


def _review_state(entry: FileEntry) -> str | None:
    node = entry.node("reviewState")
    if node is None or (isinstance(node.value, str) and node.value in REVIEW_STATES):
        return None if node is None else str(node.value)
    entry.refuse("reviewState", f"must be one of {', '.join(REVIEW_STATES)}")
    return None


def _sender(entry: FileEntry) -> str | None:
    """Forges number their accounts; Azure names them by a GUID."""
    node = entry.node("sender")
    number = node.value.whole() if node is not None and isinstance(node.value, Number) else None
    return str(number) if number is not None and number > 0 else _word(entry, "sender", "") or None


def _flag(entry: FileEntry, name: str) -> bool | None:
    node = entry.node(name)
    if node is None or isinstance(node.value, bool):
        return None if node is None else bool(node.value)
    entry.refuse(name, "must be true or false, without quotes; leave it out while nobody has asked")
    return None
