"""`projects.json`, alone and beside the limits."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.limits.limitsfile import ScopedLimits, parse_scoped_limits
from pidispatch.domain.limits.projects import (
    Boundaries,
    Project,
    Projects,
    judge_together,
    parse_boundaries,
    parse_projects,
)
from pidispatch.domain.runs.names import folder_scope
from pidispatch.errors import ConfigurationRefused

SITE = {"id": "web", "members": ["/srv/site/", "github:acme/web"]}


def text(*projects, **more):
    return json.dumps({"version": 1, "projects": list(projects), **more}).encode()


def parse(*projects, **more):
    return parse_projects(text(*projects, **more), "projects.json")


def refused(*projects, **more):
    with pytest.raises(ConfigurationRefused) as error:
        parse(*projects, **more)
    return "\n".join(error.value.problems)


def limits(*scopes):
    rows = [{"scope": scope, "day": 1} for scope in scopes]
    return json.dumps({"version": 2, "limits": rows}).encode()


def test_a_scope_finds_its_project():
    projects = parse(SITE, {"id": "api", "name": "The API", "members": ["gitlab:g/s/api"]})

    assert projects.projects[1] == Project("api", "The API", ("gitlab:g/s/api",))
    assert projects.project_of("local", "/srv//site") == "web"
    assert projects.project_of_folder_key(folder_scope("/srv/site")) == "web"
    assert projects.project_of("github", "acme/web") == "web"
    assert projects.project_of("gitlab", "acme/web") is None
    assert projects.project_of("gitlab", "g/s/api") == "api"
    assert projects.project_of("local", "/srv") is None
    assert projects.project_of("local", "") is None


@pytest.mark.parametrize("identity", [None, "", 5, "Web", "a_b", "a b", "a" * 33, "é"])
def test_an_id_is_short_and_plain(identity):
    assert "id must be" in refused({**SITE, "id": identity})


@pytest.mark.parametrize("identity", ["a", "-", "0", "a" * 32, "web-2"])
def test_any_plain_id_is_accepted(identity):
    assert parse({**SITE, "id": identity}).ids == {identity}


@pytest.mark.parametrize(
    "member", ["acme/web", "web", "", 5, None, "*", "github:acme/*", "model:a/b", "project:x", "Github:a/b", "C:\\x", "./x"]
)  # fmt: skip
def test_a_member_is_a_folder_or_a_repository_with_its_forge(member):
    assert 'projects[0] (id "web"): members[1] must be' in refused(
        {"id": "web", "members": ["/srv/x", member]}
    )


@pytest.mark.parametrize("members", [None, [], {}, "x"])
def test_a_project_has_members(members):
    assert "members must be a list of at least one" in refused({"id": "web", "members": members})


def test_a_scope_belongs_to_one_project():
    said = refused(SITE, {"id": "api", "members": ["/srv/x/../site"]})

    assert 'members[0] "/srv/site" belongs to projects[0] (id "web"): members[0] already' in said
    assert "already" in refused({"id": "web", "members": ["/a", "/a/"]})


def test_two_projects_of_one_id_are_refused():
    assert "is also that of projects[0]" in refused(SITE, {"id": "web", "members": ["/other"]})


def test_the_version_is_one():
    assert "newer pidispatch" in refused(version=2)
    assert "version must be an integer from 1 to 1" in refused(version=0)
    assert parse() == Projects()


def test_unknown_fields_are_dropped_and_noted():
    assert len(parse({**SITE, "owner": "x"}, comment=1).notes) == 2


def test_a_row_of_an_unknown_project_is_refused():
    found = parse_scoped_limits(limits("project:web", "project:api"), "limits.json")

    assert judge_together(found, parse(SITE), "limits.json") == (
        'limits.json:1: limits[1] (scope "project:api"): scope names a project that the projects file does not have',
    )


def test_both_files_are_judged_together():
    def both(first, second):
        return parse_boundaries(first, second, limits_file="l", projects_file="p")

    assert both(None, None) == Boundaries(ScopedLimits(), Projects())
    assert both(limits("project:web"), text(SITE)).limits.project_limit("web").day == 1
    with pytest.raises(ConfigurationRefused, match="names a project"):
        both(limits("project:web"), None)
    with pytest.raises(ConfigurationRefused) as error:
        both(b"[", b"]")
    assert [each[:2] for each in error.value.problems] == ["l:", "p:"]


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=6)
    | st.lists(st.text(max_size=4) | st.none(), max_size=3)
)
ENTRIES = st.dictionaries(st.sampled_from(["id", "name", "members", "x"]), VALUES)


@given(st.lists(ENTRIES | VALUES, max_size=3))
def test_no_content_raises_anything_but_a_refusal(entries):
    with contextlib.suppress(ConfigurationRefused):
        parse(*entries)
