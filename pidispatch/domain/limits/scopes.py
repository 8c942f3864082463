"""Spell a scope in its one canonical way, so that a row and a run name the same thing alike."""

import os.path
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum

from pidispatch.domain.forges.table import FORGES, LOCAL
from pidispatch.domain.providers.known import is_model

# What JavaScript trims, since the files come from there: Python also strips four separators of ASCII and NEL.
_SPACE = "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_WORD = re.compile(r"([A-Za-z][A-Za-z0-9_.+-]*)\s*:(.*)", re.DOTALL)
_PROJECT_ID = re.compile(r"[a-z0-9-]{1,32}")


class ScopeKind(StrEnum):
    LOCAL = "local"
    REPO = "repo"
    QUALIFIED = "qualified"
    PROJECT = "project"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Named:
    """A scope in canonical spelling. `subject` is what follows the prefix of a qualified, project or model scope."""

    kind: ScopeKind
    scope: str
    subject: str


def trim(text: str) -> str:
    return text.strip(_SPACE)


def lexical_path(path: str) -> str:
    """An absolute path without `.`, `..`, doubled and trailing slashes; links are not followed."""
    return "/" + os.path.normpath(path).lstrip("/")


def folder_of(text: str) -> str:
    """A run's folder as a scope: NFC, trimmed, absolute (from this process's directory), links not followed."""
    written = unicodedata.normalize("NFC", trim(text))
    return lexical_path(written if written.startswith("/") else os.path.abspath(written))  # noqa: PTH100 - links stay


def scope_of(kind: str, text: str) -> str | None:
    """The scope of a run of `kind` (local, or a forge) in `text`, its folder or repository; None when it has none."""
    if not trim(text):
        return None
    return folder_of(text) if kind == LOCAL else unicodedata.normalize("NFC", text)


def named_verbatim(text: str) -> Named:
    """A scope of the first version: an absolute folder, and everything else as it stands."""
    written = unicodedata.normalize("NFC", trim(text))
    if written.startswith("/"):
        path = lexical_path(written)
        return Named(ScopeKind.LOCAL, path, path)
    return Named(ScopeKind.REPO, written, written)


def named(text: str) -> Named | str:
    """A scope of the later versions, or what is wrong with it."""
    plain = named_verbatim(text)
    written = plain.scope
    if plain.kind is ScopeKind.LOCAL or is_foreign_path(written):
        return plain
    prefixed = _WORD.fullmatch(written)
    if prefixed is None:
        return plain if is_repository(written) else "must be an absolute folder, owner/name, or prefix:name"
    return _prefixed(written, prefixed[1], prefixed[2])


def _prefixed(written: str, prefix: str, subject: str) -> Named | str:
    if not written.startswith(f"{prefix}:"):
        return "has a space before its colon"
    match prefix:
        case "project" if is_project_id(subject):
            return Named(ScopeKind.PROJECT, written, subject)
        case "project":
            return "must name a project by its id: 1 to 32 of a-z, 0-9 and -"
        case "model" if is_model(subject):
            return Named(ScopeKind.MODEL, written, subject.lower())
        case "model":
            return "must name a model as model:provider/model"
        case _ if prefix not in FORGES:
            forges = ", ".join(f"{forge}:" for forge in FORGES)
            return f"begins with an unknown prefix; known are {forges}, model: and project:"
        case _ if is_repository(subject):
            return Named(ScopeKind.QUALIFIED, written, subject)
        case _:
            return f"must name a repository as {prefix}:owner/name"


def is_relative_folder(text: str) -> bool:
    """Whether it was meant as a folder, from the home or from here, and not as an owner's repository."""
    return re.match(r"~|\.\.?(/|$)", trim(text)) is not None


def is_project_id(text: str) -> bool:
    return _PROJECT_ID.fullmatch(text) is not None


def is_repository(text: str) -> bool:
    """Two or more segments, none of them empty, a dot name of paths, or with space at its edges; no `#`, no `:`."""
    segments = text.split("/")
    return (
        len(segments) >= 2
        and not re.search("[#:]", text)
        and all(segment and segment == trim(segment) for segment in segments)
        and not {".", "..", "~"} & set(segments)
    )


def is_foreign_path(text: str) -> bool:
    """A Windows path: it stays as it is and names no folder here."""
    return re.match(r"[A-Za-z]:[\\/]|\\\\", text) is not None


def reaches_nothing(scope: Named) -> bool:
    """Whether no run can ever be in this scope, though its text is accepted."""
    return scope.kind is ScopeKind.REPO and not is_repository(scope.scope)


def prefix_of(text: str) -> str | None:
    """The word before the first colon; the letter of a drive is none."""
    found = _WORD.fullmatch(text)
    return found[1] if found and not is_foreign_path(text) else None
