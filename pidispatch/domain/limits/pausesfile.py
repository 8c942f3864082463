"""Parse `pause-windows.json`: when no run of a scope may start."""

import re
from datetime import date, time
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from pidispatch.domain.forges.table import FORGES
from pidispatch.domain.limits.pauses import EVERYTHING, WEEKDAYS, PauseWindow, PauseWindows
from pidispatch.domain.limits.scopes import (
    is_foreign_path,
    is_relative_folder,
    is_repository,
    prefix_of,
    trim,
)
from pidispatch.domain.runs.names import plain_scope
from pidispatch.domain.text.fields import FileEntry, Report, root_entry
from pidispatch.domain.text.jsonfile import read_json
from pidispatch.domain.text.lookalikes import family_of

_TIME = re.compile(r"([0-9]|[01][0-9]|2[0-3]):([0-5][0-9])")
# Without one of these a window is open at other times than was meant.
BOUNDS = family_of(
    "",
    gaps=False,
    scope="scopes",
    to="until till end",
    tz="timezone zone",
    days="day weekday weekdays",
    dateFrom="startdate datestart fromdate",
    dateTo="enddate dateend todate",
)
LIST = family_of("", gaps=False, windows="window")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def parse_pause_windows(content: bytes, file: str) -> PauseWindows:
    """The windows of the file. Raises ConfigurationRefused with every problem."""
    report = Report(file)
    root = root_entry(read_json(content, file), report, 'an object with "windows"')
    windows = [_window(entry) for _, entry in root.entries("windows", "scope")]
    root.refuse_meant(LIST)
    root.drop_unknown()
    report.close()
    return PauseWindows(tuple(window for window in windows if window is not None), tuple(report.notes))


def _window(entry: FileEntry) -> PauseWindow | None:
    scope = _scope(entry)
    begin, end = _time(entry, "from"), _time(entry, "to")
    if begin is not None and begin == end:
        entry.refuse("to", "must differ from from")
    zone = _zone(entry)
    days = _days(entry)
    first, last = _date(entry, "dateFrom"), _date(entry, "dateTo")
    if first is not None and last is not None and first > last:
        entry.refuse("dateTo", "must not be before dateFrom")
    entry.refuse_meant(BOUNDS)
    entry.drop_unknown()
    if scope is None or begin is None or end is None:
        return None
    return PauseWindow(scope, begin, end, zone, days, first, last)


def _scope(entry: FileEntry) -> str | None:
    """The scope as it was written: a window matches the raw text."""
    scope = entry.text("scope")
    if scope is None:
        if entry.node("scope") is None:
            entry.refuse("scope", 'must be "*", a folder, owner/name or forge:owner/name')
        return None
    prefix = prefix_of(trim(scope))
    if prefix is not None:
        forge, _, repository = plain_scope(scope).partition(":")
        if forge not in FORGES:
            known = ", ".join(f"{each}:" for each in FORGES)
            entry.refuse("scope", f"begins with an unknown prefix; known are {known}")
        elif not is_repository(repository):
            entry.refuse("scope", f"must name a repository as {forge}:owner/name")
        return scope
    if is_relative_folder(scope):
        entry.refuse(
            "scope", "must be an absolute folder: nothing is known here of a home or a directory to begin at"
        )
    plain = plain_scope(scope)
    reachable = plain == EVERYTHING or plain.startswith("/") or is_repository(plain)
    if not reachable or is_foreign_path(plain):
        entry.report.note(
            entry.fields["scope"].line, f"{entry.where}: scope names no absolute folder and no owner/name"
        )
    return scope


def _time(entry: FileEntry, name: str) -> time | None:
    node = entry.node(name)
    found = _TIME.fullmatch(node.value) if node is not None and isinstance(node.value, str) else None
    if found is None:
        entry.refuse(name, "must be a time from 00:00 to 23:59, as HH:MM")
        return None
    return time(int(found[1]), int(found[2]))


def _date(entry: FileEntry, name: str) -> date | None:
    node = entry.node(name)
    if node is None:
        return None
    try:
        if isinstance(node.value, str) and _DATE.fullmatch(node.value):
            return date.fromisoformat(node.value)
    except ValueError:
        pass
    entry.refuse(name, "must be a date of the calendar, as YYYY-MM-DD")
    return None


def _days(entry: FileEntry) -> frozenset[int] | None:
    """Numbers of weekdays, Monday is 0. The first three letters tell, in any case."""
    node = entry.node("days")
    if node is None:
        return None
    items = node.value if isinstance(node.value, list) else []
    words = [item.value[:3].lower() if isinstance(item.value, str) else "" for item in items]
    if not words or any(word not in WEEKDAYS for word in words):
        entry.refuse("days", 'must be a list of at least one weekday, such as ["Mon", "Tue"]')
        return None
    return frozenset(WEEKDAYS.index(word) for word in words)


def _zone(entry: FileEntry) -> str:
    name = entry.text("tz") or "UTC"
    known = zone_name(name)
    if known is None:
        entry.refuse("tz", "must be a zone of the IANA database, such as Europe/Berlin")
    return known or "UTC"


def zone_name(written: str) -> str | None:
    """The zone's own spelling of its name; None when this machine has no such zone."""
    if written.upper() == "UTC":
        return "UTC"
    name = _zone_names().get(written.lower())
    try:
        return ZoneInfo(name).key if name is not None else None
    except (ValueError, OSError, KeyError):
        return None


@lru_cache(maxsize=1)
def _zone_names() -> dict[str, str]:
    # Asked for by name, a database of files would also answer to `localtime`, or to a name in the wrong case.
    # Some databases list it as a zone too, and it is another one on every machine.
    return {name.lower(): name for name in sorted(available_timezones() - {"localtime"})}
