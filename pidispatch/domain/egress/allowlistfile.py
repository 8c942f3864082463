"""Read an egress allowlist: one entry a line, `#` begins a remark."""

from dataclasses import replace

from pidispatch.domain.egress.allowlist import AllowedHost, Allowlist, NotAnEntry, read_entry
from pidispatch.domain.text.jsonfile import shown
from pidispatch.errors import ConfigurationRefused

FILE_NAME = "egress-allowlist.conf"
LINES_MAX = 10_000


def parse_allowlist(content: bytes, file: str) -> Allowlist:
    """Raises ConfigurationRefused with every problem, each with file and line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationRefused([f"{file}:{line}: is not UTF-8"]) from error
    lines = text.split("\n")
    if len(lines) > LINES_MAX:
        raise ConfigurationRefused([f"{file}: has more than {LINES_MAX:,} lines"])
    entries: list[AllowedHost] = []
    problems: list[str] = []
    for number, row in enumerate(lines, start=1):
        written = row.partition("#")[0].strip()
        if not written:
            continue
        try:
            entries += (replace(entry, line=number) for entry in read_entry(written))
        except NotAnEntry as error:
            problems.append(f"{file}:{number}: {shown(written)} {error}")
    if problems:
        raise ConfigurationRefused(problems)
    return Allowlist(tuple(entries))
