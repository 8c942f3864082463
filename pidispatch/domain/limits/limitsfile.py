"""Parse `scoped-limits.json`: what one folder, repository, project or model may use."""

import re
from dataclasses import dataclass, field
from functools import cached_property

from pidispatch.domain.forges.table import LOCAL
from pidispatch.domain.limits.scopes import (
    Named,
    ScopeKind,
    is_relative_folder,
    named,
    named_verbatim,
    reaches_nothing,
    scope_of,
    trim,
)
from pidispatch.domain.runs.names import folder_scope
from pidispatch.domain.text.fields import FileEntry, Report, require_version, root_entry
from pidispatch.domain.text.jsonfile import Number, read_json, shown
from pidispatch.domain.text.lookalikes import family_of

MEMORY_WANTED = "must be a size from 512m to 1024g, such as 768m or 4g"
CPUS_WANTED = "must be a number from 0.25 to 256 with at most 2 decimals"


def memory_mib(value: object) -> int | None:
    """MiB of a text such as `768m` or `4g`; None when it is none or out of bounds."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-9][0-9]{0,8}[mg]", value):
        return None
    size = int(value[:-1]) * (1024 if value.endswith("g") else 1)
    return size if 512 <= size <= 1024 * 1024 else None


def cpu_hundredths(value: object) -> int | None:
    """Hundredths of a processor, of a number or a text such as `1.5`; None when it is none or out of bounds."""
    text = value.text if isinstance(value, Number) else value
    found = re.fullmatch(r"(0|[1-9][0-9]{0,2})(?:\.([0-9]{1,2}))?", text) if isinstance(text, str) else None
    if found is None:
        return None
    size = int(found[1]) * 100 + int((found[2] or "").ljust(2, "0"))
    return size if 25 <= size <= 25_600 else None


VERSION = 3  # the newest grammar; a file of a newer one is refused, since a cap dropped is a cap widened
COUNTS = ("day", "week", "month", "concurrent")
AMOUNTS = ("dayUsd", "weekUsd", "monthUsd")
SIZES = ("memory", "cpus", "hostShare", "minJobs")
# A bound that is dropped is a bound that is not there.
BOUNDS = family_of(
    "",
    gaps=False,
    day="days daily perday runsaday dailycap",
    week="weeks weekly perweek weeklycap",
    month="months monthly permonth monthlycap",
    concurrent="concurrency parallel maxconcurrent atatime",
    dayUsd="dailyusd dailycostusd usdaday",
    weekUsd="weeklyusd weeklycostusd",
    monthUsd="monthlyusd monthlycostusd",
    memory="mem memorymib",
    cpus="cpu",
    hostShare="",
    minJobs="",
)
LIST = family_of("", gaps=False, limits="limit")


@dataclass(frozen=True, slots=True)
class ScopeLimit:
    """What one scope may use: runs per period, runs at a time, micro-dollars per period; None is no limit.

    The last four are a project's size of a job and its share of a host. `subject` is the scope without its prefix
    (a model's in lower case). `index` and `line` say where the row stands in the file.
    """

    scope: str
    kind: ScopeKind
    subject: str
    day: int | None = None
    week: int | None = None
    month: int | None = None
    concurrent: int | None = None
    day_micros: int | None = None
    week_micros: int | None = None
    month_micros: int | None = None
    memory_mib: int | None = None
    cpu_hundredths: int | None = None
    host_share: int | None = None
    min_jobs: int | None = None
    index: int = field(default=0, compare=False)
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class ScopedLimits:
    """The rows in the order of the file; each scope has at most one. `notes` are worth a line in the log."""

    rows: tuple[ScopeLimit, ...] = ()
    version: int = VERSION
    notes: tuple[str, ...] = field(default=(), compare=False)

    def limit_for(self, kind: str, text: str) -> ScopeLimit | None:
        """The row of a run's own scope: `text` is its folder for kind `local`, else its repository at forge `kind`."""
        scope = scope_of(kind, text)
        if scope is None:
            return None
        if kind == LOCAL:
            return self._by_scope.get((ScopeKind.LOCAL, scope))
        qualified = self._by_scope.get((ScopeKind.QUALIFIED, f"{kind}:{scope}"))
        return qualified or self._by_scope.get((ScopeKind.REPO, scope))

    def for_folder_key(self, key: str) -> ScopeLimit | None:
        """The row of the folder whose `identity.folder_scope` is `key`, for those who hold no path."""
        return self._by_folder_key.get(key)

    def project_limit(self, project: str) -> ScopeLimit | None:
        return self._by_scope.get((ScopeKind.PROJECT, f"project:{project}"))

    def model_limit(self, provider: str, model: str) -> ScopeLimit | None:
        """The row of a model; case does not count."""
        wanted = f"{provider}/{model}".lower()
        return next((row for row in self.model_limits if row.subject == wanted), None)

    @cached_property
    def model_limits(self) -> tuple[ScopeLimit, ...]:
        return tuple(row for row in self.rows if row.kind is ScopeKind.MODEL)

    @cached_property
    def _by_scope(self) -> dict[tuple[ScopeKind, str], ScopeLimit]:
        return {(row.kind, row.scope): row for row in self.rows}

    @cached_property
    def _by_folder_key(self) -> dict[str, ScopeLimit]:
        return {folder_scope(row.scope): row for row in self.rows if row.kind is ScopeKind.LOCAL}


def parse_scoped_limits(content: bytes, file: str) -> ScopedLimits:
    """The rows of the file. Raises ConfigurationRefused with every problem."""
    report = Report(file)
    root = root_entry(read_json(content, file), report, 'an object with "version" and "limits"')
    version = require_version(root, VERSION)
    rows = [
        row
        for index, entry in root.entries("limits", "scope")
        if (row := _row(entry, version=version, index=index)) is not None
    ]
    _refuse_doubles(rows, report)
    root.refuse_meant(LIST)
    root.drop_unknown()
    report.close()
    return ScopedLimits(tuple(rows), version, tuple(report.notes))


def _row(entry: FileEntry, *, version: int, index: int) -> ScopeLimit | None:
    scope = _scope(entry, version)
    counts = {name: entry.whole(name) for name in COUNTS}
    amounts = {name: entry.micros(name) for name in AMOUNTS} if version >= 2 else {}
    sizes = _sizes(entry, counts["concurrent"]) if version >= 3 else {}
    if version >= 3:
        entry.refuse_unknown(("scope", *COUNTS, *AMOUNTS, *SIZES))
    else:
        _refuse_later_bounds(entry, version)
        entry.refuse_meant(BOUNDS)
        entry.drop_unknown()
    if scope is None:
        return None
    _require_its_own_fields(entry, scope)
    allowed = (*COUNTS, *AMOUNTS, *SIZES) if version >= 3 else (*COUNTS, *AMOUNTS) if version == 2 else COUNTS
    if all(entry.node(name) is None for name in allowed):
        entry.refuse_entry(f"limits nothing; give at least one of {', '.join(allowed)}")
    return ScopeLimit(
        scope.scope,
        scope.kind,
        scope.subject,
        **counts,
        day_micros=amounts.get("dayUsd"),
        week_micros=amounts.get("weekUsd"),
        month_micros=amounts.get("monthUsd"),
        **sizes,
        index=index,
        line=entry.line,
    )


def _refuse_later_bounds(entry: FileEntry, version: int) -> None:
    """What only a later version reads was written to bound something, so it is not dropped."""
    for names, needed in ((AMOUNTS, 2), (SIZES, 3)):
        for name in names:
            if version < needed and entry.node(name) is not None:
                entry.refuse(name, f'needs "version": {needed}, this file is of version {version}')


def _scope(entry: FileEntry, version: int) -> Named | None:
    if entry.node("scope") is None:
        entry.refuse("scope", "must be a text that is not empty")
        return None
    text = entry.text("scope")
    if text is None:
        return None
    if trim(text) == "*":
        entry.refuse("scope", 'must not be "*": give one row for each scope')
        return None
    if "*" in text or "\0" in text:
        entry.refuse("scope", 'must not hold "*" or NUL: scopes match exactly')
        return None
    found = named_verbatim(text) if version == 1 else named(text)
    if is_relative_folder(text):
        found = "must be an absolute folder: nothing is known here of a home or a directory to begin at"
    if isinstance(found, str):
        entry.refuse("scope", found)
        return None
    if reaches_nothing(found):
        hint = '; a prefix needs "version": 2' if version == 1 and ":" in found.scope else ""
        entry.report.note(
            entry.fields["scope"].line, f"{entry.where}: scope names no folder and no repository here{hint}"
        )
    return found


def _require_its_own_fields(entry: FileEntry, scope: Named) -> None:
    """A model has only amounts, and only a project has a size."""
    for name in COUNTS if scope.kind is ScopeKind.MODEL else ():
        if entry.node(name) is not None:
            entry.refuse(name, f"is not for a model, which takes only {', '.join(AMOUNTS)}")
    for name in SIZES if scope.kind is not ScopeKind.PROJECT else ():
        if name in entry.fields and entry.asked(name) and entry.node(name) is not None:
            entry.refuse(name, "is for a project only")


def _sizes(entry: FileEntry, concurrent: int | None) -> dict[str, int | None]:
    memory, cpus = entry.node("memory"), entry.node("cpus")
    mib = memory_mib(memory.value) if memory else None
    hundredths = cpu_hundredths(cpus.value) if cpus else None
    if memory and mib is None:
        entry.refuse("memory", MEMORY_WANTED)
    if cpus and hundredths is None:
        entry.refuse("cpus", CPUS_WANTED)
    jobs = entry.whole("minJobs")
    if jobs is not None and memory is None and cpus is None:
        entry.refuse("minJobs", "needs memory or cpus in the same row")
    if jobs is not None and concurrent is not None and jobs > concurrent:
        entry.refuse("minJobs", "must not be above concurrent")
    share = entry.whole("hostShare", maximum=100)
    return {"memory_mib": mib, "cpu_hundredths": hundredths, "host_share": share, "min_jobs": jobs}


def _refuse_doubles(rows: list[ScopeLimit], report: Report) -> None:
    """Two rows for one scope, or a bare repository beside a qualified one, is a question without a right answer."""
    first: dict[tuple[ScopeKind, str], ScopeLimit] = {}
    for row in rows:
        identity = (row.kind, row.subject if row.kind is ScopeKind.MODEL else row.scope)
        before = first.setdefault(identity, row)
        if before is not row:
            report.refuse(
                row.line,
                f"limits[{row.index}]: duplicate scope {shown(row.scope)} (first is limits[{before.index}])",
            )
    bare = {row.scope: row for row in rows if row.kind is ScopeKind.REPO}
    for row in rows:
        if row.kind is ScopeKind.QUALIFIED and row.subject in bare:
            other = bare[row.subject].index
            report.refuse(
                row.line,
                f"limits[{row.index}]: scope {shown(row.scope)} stands beside limits[{other}], which is that "
                "repository on every forge",
            )
