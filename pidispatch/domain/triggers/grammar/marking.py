"""Put the mark of a used-up one-shot into the file, or take it out, leaving every other byte as it is."""

import json

from pidispatch.domain.text.jsonfile import Node, read_json
from pidispatch.domain.triggers.trigger import Disarmed
from pidispatch.errors import ConfigurationRefused

MARK = "disarmed"


def with_disarmed(content: bytes, file: str, index: int, mark: Disarmed) -> bytes:
    """The file with the mark in `on` of the entry at `index`. A mark that is there stays, and so does the file.

    Raises ConfigurationRefused when the file is no JSON, or has no one-shot there. Whether it is still the one that
    was meant is for the caller to see: an entry may have moved.
    """
    text, on = _one_shot(content, file, index)
    fields = _members(on)
    if MARK in fields:
        return content
    written = {"at": mark.at} | ({"jobId": mark.job_id} if mark.job_id is not None else {})
    value = json.dumps(written, ensure_ascii=False)
    last = list(fields.values())[-1]
    member = f",{_gap(text, on)}{json.dumps(MARK)}: {value}"
    return _checked(text[: last.end] + member + text[last.end :], file)


def without_disarmed(content: bytes, file: str, index: int) -> bytes:
    """The file without the mark, which arms the entry again. Raises as `with_disarmed`."""
    text, on = _one_shot(content, file, index)
    fields = _members(on)
    if MARK not in fields:
        return content
    names = list(fields)
    place = names.index(MARK)
    if place > 0:
        return _checked(text[: fields[names[place - 1]].end] + text[fields[MARK].end :], file)
    # It is the first, and never alone: `once` is beside it.
    begin = _key_begin(text, on, fields, 0)
    return _checked(text[:begin] + text[_key_begin(text, on, fields, 1) :], file)


def _one_shot(content: bytes, file: str, index: int) -> tuple[str, Node]:
    """The text, and `on` of the entry."""
    root = read_json(content, file)
    entries = _members(root).get("triggers", Node(None)).value
    entry = entries[index] if isinstance(entries, list) and 0 <= index < len(entries) else None
    on = _members(entry).get("on") if entry is not None else None
    if on is None or _members(on).get("once") != Node(True):
        line = entry.line if entry is not None else root.line
        raise ConfigurationRefused([f"{file}:{line}: triggers[{index}] is no one-shot (on.once: true)"])
    return content.decode(), on


def _members(node: Node) -> dict[str, Node]:
    return node.value if isinstance(node.value, dict) else {}


def _gap(text: str, on: Node) -> str:
    """What stands before the last key, so that the new one stands like it."""
    fields = _members(on)
    last = len(fields) - 1
    before = list(fields.values())[last - 1].end if last else on.begin + 1
    gap = text[before : _key_begin(text, on, fields, last)]
    return gap.replace(",", "", 1)


def _key_begin(text: str, on: Node, fields: dict[str, Node], place: int) -> int:
    """Only space and a comma stand between a value and the next key."""
    before = list(fields.values())[place - 1].end if place else on.begin + 1
    return text.index('"', before)


def _checked(text: str, file: str) -> bytes:
    content = text.encode()
    read_json(content, file)
    return content
