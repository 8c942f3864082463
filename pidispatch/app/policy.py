"""Join settings, overlay and the operator's files into the policy in force."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from pidispatch.app.operatorfiles import base_of, overlay_file
from pidispatch.config import Settings
from pidispatch.domain import words
from pidispatch.domain.files.inforce import FileName
from pidispatch.domain.files.overlay import Effective, Overlay, merge, money_problems, parse_overlay
from pidispatch.domain.files.pausewindows import parse_pause_windows
from pidispatch.domain.files.projects import Boundaries, parse_boundaries
from pidispatch.domain.files.scopedlimits import ScopedLimits, ScopeLimit
from pidispatch.domain.files.scopes import ScopeKind
from pidispatch.domain.identity import folder_scope
from pidispatch.domain.pause import PauseWindows
from pidispatch.domain.policy import NeverPaused, PauseCalendar, Policy, ScopeCaps
from pidispatch.errors import ConfigurationRefused
from pidispatch.files import LiveFile, LiveFiles, StrictFile, Unusable
from pidispatch.ports import KeptFiles, Refused

MOST_AT_A_TIME = 2**31 - 1  # what the column holds; no host comes near it
INVALID = Refused(words.SETTINGS_OVERLAY_INVALID, None)


class FilePolicies:
    """Implements `ports.Policies`. The overlay must be right at each reading; of the other files the last good edit
    stays in force, and `problems` says so. `kept` is where that is for all processes; without it, in this one alone.
    """

    def __init__(self, settings: Settings, kept: KeptFiles | None = None) -> None:
        self._settings = settings
        self._base = base_of(settings)
        overlay = overlay_file(settings)
        self._overlay: StrictFile[Overlay] = StrictFile(
            FileName.SETTINGS, overlay, lambda content: parse_overlay(content, str(overlay)), kept=kept
        )
        self._boundaries = _boundaries_of(settings.scoped_limits_file, settings.projects_file, kept)
        self._pauses = _pauses_of(settings.pause_windows_file, kept)

    def load(self) -> None:
        """Read every file at the start. Raises ConfigurationRefused with the problems of all."""
        problems = [_in_words_of_the_environment(problem) for problem in money_problems(self._base)]
        self._overlay.read()
        for file in (self._boundaries, self._pauses):
            try:
                if file is not None:
                    file.load()
            except ConfigurationRefused as error:
                problems += error.problems
        if problems:
            raise ConfigurationRefused(problems)

    def current(self) -> Policy | Refused:
        overlay, basis = self._overlay.read_with_basis()
        if isinstance(overlay, Unusable):
            return INVALID
        merged = merge(overlay, self._base)
        if not isinstance(merged, Effective):
            return INVALID
        boundaries = Boundaries(ScopedLimits(), _NO_PROJECTS)
        calendar: PauseCalendar = NeverPaused()
        if self._boundaries is not None:
            boundaries, more = self._boundaries.with_basis()
            basis += more
        if self._pauses is not None:
            calendar, more = self._pauses.with_basis()
            basis += more
        policy = _policy(merged, boundaries, calendar, image=self._settings.job_image)
        return replace(policy, allowed_models=self._settings.allowed_models or None, basis=basis)

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the files now, since when and what holds, one sentence each; empty when all is well."""
        found: list[str] = [*self._overlay.not_in_force()]
        overlay = self._overlay.read()
        if not isinstance(overlay, Unusable):
            merged = merge(overlay, self._base)
            found += merged if not isinstance(merged, Effective) else ()
        for file in (self._boundaries, self._pauses):
            found += file.not_in_force() if file is not None else ()
        return tuple(found)

    def look(self) -> None:
        """See what has changed, so that a bad edit is told whether or not a run asks for the limits."""
        self._overlay.read()
        for file in (self._boundaries, self._pauses):
            if file is not None:
                file.current()


_NO_PROJECTS = parse_boundaries(None, None, limits_file="", projects_file="").projects


def _boundaries_of(
    limits: Path | None, projects: Path | None, kept: KeptFiles | None
) -> LiveFiles[Boundaries] | None:
    paths = [path for path in (limits, projects) if path is not None]
    if not paths:
        return None

    def parse(*contents: bytes | None) -> Boundaries:
        read = dict(zip(paths, contents, strict=True))
        missing = [f"{path}: does not exist" for path, content in read.items() if content is None]
        if missing:
            raise ConfigurationRefused(missing)
        return parse_boundaries(
            read.get(limits) if limits else None,
            read.get(projects) if projects else None,
            limits_file=str(limits),
            projects_file=str(projects),
        )

    return LiveFiles(FileName.SCOPED_LIMITS, paths, parse, kept=kept)


def _pauses_of(path: Path | None, kept: KeptFiles | None) -> LiveFile[PauseWindows] | None:
    if path is None:
        return None
    parse: Callable[[bytes], PauseWindows] = partial(parse_pause_windows, file=str(path))
    return LiveFile(FileName.PAUSE_WINDOWS, path, parse, kept=kept)


def _policy(merged: Effective, boundaries: Boundaries, pauses: PauseCalendar, *, image: str) -> Policy:
    members = {
        _key_of_member(member): project.id
        for project in boundaries.projects.projects
        for member in project.members
    }
    rows = {_key_of_row(row): row for row in boundaries.limits.rows}
    return Policy(
        provider=merged.provider,
        model=merged.model,
        image=image,
        max_turns=merged.max_turns,
        max_tokens=merged.max_tokens,
        concurrency=merged.concurrency,
        daily_cap=merged.daily_cap,
        weekly_cap=merged.weekly_cap,
        monthly_cap=merged.monthly_cap,
        soft_hold_pct=merged.soft_hold_pct,
        daily_token_cap=merged.daily_token_cap,
        max_cost_micros=merged.max_cost_micros,
        daily_micros=merged.daily_cost_micros,
        weekly_micros=merged.weekly_cost_micros,
        monthly_micros=merged.monthly_cost_micros,
        by_scope={key: _caps(row) for key, row in rows.items()},
        projects=members,
        names={key: row.scope for key, row in rows.items()},
        pauses=pauses,
    )


def _key_of_row(row: ScopeLimit) -> str:
    """As `runs.scope`: a folder's is a hash of its path, a repository's, project's or model's is what is written."""
    return folder_scope(row.scope) if row.kind is ScopeKind.LOCAL else row.scope


def _key_of_member(member: str) -> str:
    return folder_scope(member) if member.startswith("/") else member


def _caps(row: ScopeLimit) -> ScopeCaps:
    return ScopeCaps(
        day=row.day,
        week=row.week,
        month=row.month,
        concurrent=None if row.concurrent is None else min(row.concurrent, MOST_AT_A_TIME),
        day_micros=row.day_micros,
        week_micros=row.week_micros,
        month_micros=row.month_micros,
    )


def _in_words_of_the_environment(problem: str) -> str:
    words = {"dailyCostUsd": "PI_DAILY_COST_USD", "weeklyCostUsd": "PI_WEEKLY_COST_USD"}
    words |= {"monthlyCostUsd": "PI_MONTHLY_COST_USD", "maxCostUsd": "PI_MAX_COST_USD"}
    for key, name in words.items():
        problem = problem.replace(key, name)
    return problem
