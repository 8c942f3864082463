"""Read the fields of one entry, collecting every problem with its place instead of stopping at the first."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from pidispatch.domain.money import WANTED, WANTED_OR_ZERO, micros_of, micros_or_zero_of
from pidispatch.domain.text.jsonfile import SAFE_MAX, Node, Number, shown
from pidispatch.domain.text.lookalikes import KeyFamily
from pidispatch.errors import ConfigurationRefused

PROBLEMS_MAX = 50  # a file of a thousand faults is told with its first ones


@dataclass(slots=True)
class Report:
    """What is wrong with a file, and what is only worth knowing (`notes`)."""

    file: str
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def refuse(self, line: int, problem: str) -> None:
        self.problems.append(f"{self.file}:{line}: {problem}")

    def note(self, line: int, remark: str) -> None:
        self.notes.append(f"{self.file}:{line}: {remark}")

    def close(self) -> None:
        """Raise ConfigurationRefused when there was a problem."""
        if len(self.problems) > PROBLEMS_MAX:
            more = len(self.problems) - PROBLEMS_MAX
            raise ConfigurationRefused([*self.problems[:PROBLEMS_MAX], f"{self.file}: {more} more problems"])
        if self.problems:
            raise ConfigurationRefused(self.problems)


class FileEntry:
    """One object of a file, called `where` in messages. Each field that is asked for counts as known."""

    def __init__(self, report: Report, where: str, fields: dict[str, Node], line: int) -> None:
        self.report, self.where, self.fields, self.line = report, where, fields, line
        self._known: set[str] = set()

    def node(self, name: str) -> Node | None:
        """The field's value; None when it is absent, or null, which means the same."""
        self._known.add(name)
        node = self.fields.get(name)
        return None if node is None or node.value is None else node

    def refuse(self, name: str, problem: str) -> None:
        line = self.fields[name].line if name in self.fields else self.line
        self.report.refuse(line, f"{self._place(name)} {problem}")

    def refuse_entry(self, problem: str) -> None:
        self.report.refuse(self.line, f"{self.where}: {problem}")

    def text(self, name: str) -> str | None:
        """A text that is not blank."""
        node = self.node(name)
        if node is None:
            return None
        if isinstance(node.value, str) and node.value.strip():
            return node.value
        self.refuse(name, "must be a text that is not empty")
        return None

    def whole(self, name: str, *, minimum: int = 1, maximum: int = SAFE_MAX) -> int | None:
        """An integer in bounds; `5.0` and `1e1` are integers, as they are where JSON comes from."""
        node = self.node(name)
        if node is None:
            return None
        value = node.value.whole() if isinstance(node.value, Number) else None
        if value is not None and minimum <= value <= maximum:
            return value
        bounds = f">= {minimum}" if maximum == SAFE_MAX else f"from {minimum} to {maximum}"
        self.refuse(name, f"must be an integer {bounds}, written without quotes")
        return None

    def micros(self, name: str, *, zero: bool = False) -> int | None:
        """Micro-dollars of an amount that is written as a text or as a number; `zero`: nothing is an amount as well."""
        node = self.node(name)
        if node is None:
            return None
        written = node.value.text if isinstance(node.value, Number) else node.value
        read = micros_or_zero_of if zero else micros_of
        amount = read(written) if isinstance(written, str) else None
        if amount is None:
            self.refuse(name, f"must be {WANTED_OR_ZERO if zero else WANTED}")
        return amount

    def asked(self, name: str) -> bool:
        """Whether the grammar of this file knows the field."""
        return name in self._known

    def unknown(self) -> Iterator[str]:
        """The fields that nobody asked for."""
        return (name for name in self.fields if name not in self._known)

    def drop_unknown(self) -> None:
        for name in self.unknown():
            self.report.note(
                self.fields[name].line, f"{self._place(shown(name))} is unknown here and ignored"
            )

    def refuse_meant(self, family: KeyFamily) -> None:
        """Refuse what is not known and was meant to be a key of the family, which bounds something."""
        for name in list(self.unknown()):
            meant = family.meant_by(name)
            if meant is not None:
                self._known.add(name)
                told = f"is not a key; {meant} is, and it must be spelled and placed like that"
                self.report.refuse(self.fields[name].line, f"{self._place(shown(name))} {told}")

    def refuse_unknown(self, known: Collection[str]) -> None:
        for name in self.unknown():
            wanted = ", ".join(known)
            self.report.refuse(
                self.fields[name].line, f"{self._place(shown(name))} is unknown here; known are {wanted}"
            )

    def entries(self, name: str, key: str) -> Iterator[tuple[int, "FileEntry"]]:
        """Each object of the list `name` with its index, called by it and by its field `key`; others are refused."""
        node = self.node(name)
        if node is None or not isinstance(node.value, list):
            self.refuse(name, "must be a list")
            return
        for index, item in enumerate(node.value):
            if isinstance(item.value, dict):
                yield (
                    index,
                    FileEntry(
                        self.report, _called(name, index, item.value.get(key), key), item.value, item.line
                    ),
                )
            else:
                self.report.refuse(item.line, f"{name}[{index}]: must be an object")

    def _place(self, name: str) -> str:
        return f"{self.where}: {name}" if self.where else name


def root_entry(node: Node, report: Report, what: str) -> FileEntry:
    """The object that a file must be. Raises ConfigurationRefused."""
    if not isinstance(node.value, dict):
        raise ConfigurationRefused([f"{report.file}:{node.line}: must be {what}"])
    return FileEntry(report, "", node.value, node.line)


def require_version(root: FileEntry, known: int) -> int:
    """The file's version. Raises ConfigurationRefused, for what is newer alone: nothing else in it can be judged."""
    node = root.node("version")
    value = node.value.whole() if node is not None and isinstance(node.value, Number) else None
    if node is not None and isinstance(node.value, Number) and float(node.value.text) > known:
        root.refuse(
            "version", f"was written by a newer pidispatch; this one knows {known} and what came before it"
        )
    elif value is None or value < 1:
        root.refuse("version", f"must be an integer from 1 to {known}")
    root.report.close()
    if value is None:
        raise ConfigurationRefused([f"{root.report.file}: version is missing"])
    return value


def _called(name: str, index: int, identity: Node | None, key: str) -> str:
    """`limits[2] (scope "acme/web")`."""
    told = f" ({key} {shown(identity.value)})" if identity and isinstance(identity.value, str) else ""
    return f"{name}[{index}]{told}"
