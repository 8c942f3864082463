"""Read one object of an entry, which ends with its first problem: the order of the checks is part of the grammar."""

import re
from collections.abc import Iterator
from typing import NoReturn

from pidispatch.domain.limits.scopes import trim
from pidispatch.domain.text.fields import FileEntry, Report
from pidispatch.domain.text.jsonfile import Node, shown

_REMARKS = ("_", "$", "#", "//")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,60}(?:\[[0-9]+\])?")


class EntryStopped(Exception):
    """The entry was refused, and its report says why."""


class Part(FileEntry):
    """An entry (`name` empty), its `on`, or its `run`. Unlike in other files, null is a value that was written."""

    def __init__(self, report: Report, where: str, name: str, fields: dict[str, Node], line: int) -> None:
        super().__init__(report, where, fields, line)
        self.name = name

    def refuse(self, name: str, problem: str) -> NoReturn:
        """End the entry. `name` may have the index of an item behind it: `models[2]`."""
        self.report.refuse(self._line_of(name), f"{self._place(name)} {problem}")
        raise EntryStopped

    def given(self, name: str) -> Node | None:
        """What was written, null too; None when nothing was."""
        self._known.add(name)
        return self.fields.get(name)

    def forbid(self, name: str, reason: str) -> None:
        """Refuse the field, whatever it holds."""
        if self.given(name) is not None:
            self.refuse(name, reason)

    def filled(self, name: str, hint: str = "") -> str:
        """A text that must be there and is not blank."""
        node = self.given(name)
        if node is None or not isinstance(node.value, str) or not trim(node.value):
            self.refuse(name, f"must be a text that is not empty{hint}")
        return node.value

    def filled_if_given(self, name: str, hint: str = "") -> str | None:
        return self.filled(name, hint) if self.given(name) is not None else None

    def trimmed(self, name: str) -> str | None:
        """A text without space around it: it is used as it stands, so what was reviewed must be what runs."""
        text = self.filled_if_given(name)
        if text is not None and text != trim(text):
            self.refuse(name, "must not begin or end with space: it is used as it stands")
        return text

    def flag(self, name: str) -> bool | None:
        node = self.given(name)
        if node is None:
            return None
        if not isinstance(node.value, bool):
            self.refuse(name, "must be true or false, written without quotes")
        return node.value

    def words(self, name: str, known: tuple[str, ...], what: str) -> tuple[str, ...]:
        """A list of at least one of the known words."""
        items = self.given(name)
        if items is None or not isinstance(items.value, list) or not items.value:
            self.refuse(name, f"must be a list of at least one {what}; known are {', '.join(known)}")
        for index, item in enumerate(items.value):
            if not isinstance(item.value, str) or item.value not in known:
                told = f" {shown(item.value)}" if isinstance(item.value, str) else ""
                self.refuse(f"{name}[{index}]", f"is no {what}{told}; known are {', '.join(known)}")
        return tuple(item.value for item in items.value if isinstance(item.value, str))

    def unknown(self) -> Iterator[str]:
        """The fields that nobody asked for, without those that people use as remarks."""
        return (name for name in super().unknown() if not name.startswith(_REMARKS))

    def drop_unknown(self) -> None:
        for name in self.unknown():
            self.report.note(self.fields[name].line, f"{self._place(name)} is unknown here and ignored")

    def _line_of(self, name: str) -> int:
        field, _, index = name.partition("[")
        node = self.fields.get(name) or self.fields.get(field)
        if node is None:
            return self.line
        if name not in self.fields and isinstance(node.value, list):
            return node.value[int(index[:-1])].line
        return node.line

    def _place(self, name: str) -> str:
        plain = name if _PLAIN.fullmatch(name) else shown(name)
        return f"{self.where}: {self.name}.{plain}" if self.name else f"{self.where}: {plain}"
