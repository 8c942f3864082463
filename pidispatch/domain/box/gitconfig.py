"""Read a git configuration file: enough of its grammar to know what its owner set, and nothing that is run."""

import re
from collections.abc import Iterator

_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\\n]|\\.)*)")?\s*\]')
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\"}

Setting = tuple[str, str]


def settings_of(content: bytes) -> list[Setting]:
    """(name, value) in order, as `section.key` or `section.subsection.key`; the section and the key in lower case.

    git-config(1), "Syntax". A name alone is `true`. A line that is none ends the reading: git would refuse the file,
    and what is read of it then only makes a folder look less clean.
    """
    found: list[Setting] = []
    section = ""
    lines = iter(content.decode(errors="replace").removeprefix("\ufeff").split("\n"))
    for line in lines:
        text = line.strip()
        header = _SECTION.match(text)
        if header:
            section = header[1].lower() + ("" if header[2] is None else f".{_plain(header[2])}")
            text = text[header.end() :].strip()
        if not text or text[0] in "#;":
            continue
        name = _NAME.match(text)
        if name is None or not section:
            break
        rest = text[name.end() :].lstrip()
        if rest[:1] not in {"", "=", "#", ";"}:
            break
        value = "true" if rest[:1] != "=" else _value(rest[1:], lines)
        found.append((f"{section}.{name[0].lower()}", value))
    return found


def _plain(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)


def _value(text: str, lines: Iterator[str]) -> str:
    """Quotes are taken off, escapes undone, comments left out, and a line that ends in a backslash goes on."""
    out: list[str] = []
    kept = 0  # up to here trailing blanks belong to the value
    quoted = False
    text = text.lstrip()
    at = 0
    while at < len(text):
        letter = text[at]
        at += 1
        if letter == "\\":
            if at == len(text):
                text, at = next(lines, ""), 0
                continue
            out.append(_ESCAPES.get(text[at], text[at]))
            at += 1
            kept = len(out)
        elif letter == '"':
            quoted = not quoted
            kept = len(out)
        elif letter in "#;" and not quoted:
            break
        else:
            out.append(letter)
            if quoted or not letter.isspace():
                kept = len(out)
    return "".join(out[:kept])
