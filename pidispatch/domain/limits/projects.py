"""Parse `projects.json`: which folders and repositories make up a project."""

from dataclasses import dataclass, field
from functools import cached_property

from pidispatch.domain.forges.table import LOCAL
from pidispatch.domain.limits.limitsfile import ScopedLimits, parse_scoped_limits
from pidispatch.domain.limits.scopes import ScopeKind, is_project_id, named, scope_of
from pidispatch.domain.runs.names import folder_scope
from pidispatch.domain.text.fields import FileEntry, Report, require_version, root_entry
from pidispatch.domain.text.jsonfile import Node, read_json, shown
from pidispatch.domain.text.lookalikes import family_of
from pidispatch.errors import ConfigurationRefused

VERSION = 1
LIST = family_of("", gaps=False, projects="project")
MEMBERS = family_of("", gaps=False, members="member folders repositories repos")


@dataclass(frozen=True, slots=True)
class Project:
    """`members` are canonical scopes: absolute folders and repositories of a named forge."""

    id: str
    name: str | None
    members: tuple[str, ...]


@dataclass(frozen=True)
class Projects:
    """The projects in the order of the file; a scope belongs to one at most."""

    projects: tuple[Project, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)

    def project_of(self, kind: str, text: str) -> str | None:
        """The id of a run's project: `text` is its folder for kind `local`, else its repository at forge `kind`."""
        scope = scope_of(kind, text)
        if scope is None:
            return None
        return self._owner.get(scope if kind == LOCAL else f"{kind}:{scope}")

    def project_of_folder_key(self, key: str) -> str | None:
        """The same for the folder whose `identity.folder_scope` is `key`."""
        return self._owner_of_key.get(key)

    @cached_property
    def ids(self) -> frozenset[str]:
        return frozenset(project.id for project in self.projects)

    @cached_property
    def _owner(self) -> dict[str, str]:
        return {member: project.id for project in self.projects for member in project.members}

    @cached_property
    def _owner_of_key(self) -> dict[str, str]:
        return {folder_scope(scope): owner for scope, owner in self._owner.items() if scope.startswith("/")}


def parse_projects(content: bytes, file: str) -> Projects:
    """The projects of the file. Raises ConfigurationRefused with every problem."""
    report = Report(file)
    root = root_entry(read_json(content, file), report, 'an object with "version" and "projects"')
    require_version(root, VERSION)
    ids: dict[str, int] = {}
    owners: dict[str, str] = {}
    projects = [_project(entry, index, ids, owners) for index, entry in root.entries("projects", "id")]
    root.refuse_meant(LIST)
    root.drop_unknown()
    report.close()
    return Projects(tuple(projects), tuple(report.notes))


def _project(entry: FileEntry, index: int, ids: dict[str, int], owners: dict[str, str]) -> Project:
    identity = entry.text("id")
    if identity is None:
        if entry.node("id") is None:
            entry.refuse("id", "must be a text that is not empty")
    elif not is_project_id(identity):
        entry.refuse("id", "must be 1 to 32 of a-z, 0-9 and -")
    elif ids.setdefault(identity, index) != index:
        entry.refuse("id", f"is also that of projects[{ids[identity]}]")
    name = entry.text("name")
    members = _members(entry, owners)
    entry.refuse_meant(MEMBERS)
    entry.drop_unknown()
    return Project(identity or "", name, members)


def _members(entry: FileEntry, owners: dict[str, str]) -> tuple[str, ...]:
    node = entry.node("members")
    if node is None or not isinstance(node.value, list) or not node.value:
        entry.refuse("members", "must be a list of at least one folder or repository")
        return ()
    members = []
    for index, item in enumerate(node.value):
        member = _member(item)
        place = f"members[{index}]"
        problem = member.problem
        if problem is None and member.scope in owners:
            problem = f"{shown(member.scope)} belongs to {owners[member.scope]} already"
        if problem is not None:
            entry.report.refuse(item.line, f"{entry.where}: {place} {problem}")
        else:
            owners[member.scope] = f"{entry.where}: {place}"
            members.append(member.scope)
    return tuple(members)


@dataclass(frozen=True, slots=True)
class _Member:
    scope: str = ""
    problem: str | None = None


def _member(node: Node) -> _Member:
    wanted = "must be an absolute folder, or a repository with its forge, such as github:owner/name"
    if not isinstance(node.value, str) or "*" in node.value or "\0" in node.value:
        return _Member(problem=wanted)
    found = named(node.value)
    if isinstance(found, str) or found.kind not in {ScopeKind.LOCAL, ScopeKind.QUALIFIED}:
        return _Member(problem=wanted)
    return _Member(found.scope)


def judge_together(limits: ScopedLimits, projects: Projects, limits_file: str) -> tuple[str, ...]:
    """A problem for each row of limits that names a project which is not there."""
    return tuple(
        f"{limits_file}:{row.line}: limits[{row.index}] (scope {shown(row.scope)}): scope names a project that "
        "the projects file does not have"
        for row in limits.rows
        if row.kind is ScopeKind.PROJECT and row.subject not in projects.ids
    )


@dataclass(frozen=True, slots=True)
class Boundaries:
    """Limits and the projects they speak of: judged together, so that the order of saving does not matter."""

    limits: ScopedLimits
    projects: Projects

    @property
    def notes(self) -> tuple[str, ...]:
        return self.limits.notes + self.projects.notes


def parse_boundaries(
    limits: bytes | None, projects: bytes | None, *, limits_file: str, projects_file: str
) -> Boundaries:
    """Both files; None is a file that is not configured. Raises ConfigurationRefused with the problems of both."""
    problems: list[str] = []
    found_limits, found_projects = ScopedLimits(), Projects()
    try:
        found_limits = parse_scoped_limits(limits, limits_file) if limits is not None else found_limits
    except ConfigurationRefused as error:
        problems += error.problems
    try:
        found_projects = parse_projects(projects, projects_file) if projects is not None else found_projects
    except ConfigurationRefused as error:
        problems += error.problems
    problems = problems or list(judge_together(found_limits, found_projects, limits_file))
    if problems:
        raise ConfigurationRefused(problems)
    return Boundaries(found_limits, found_projects)
