"""`scoped-limits.json`: every rule of its grammar, version by version."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.limits.limitsfile import ScopedLimits, ScopeLimit, parse_scoped_limits
from pidispatch.domain.limits.scopes import ScopeKind
from pidispatch.domain.runs.names import folder_scope
from pidispatch.errors import ConfigurationRefused

NFC, NFD = "acme/w\u00e9b", "acme/we\u0301b"


def parse(*rows, version=1, **more):
    document = {"version": version, "limits": list(rows), **more}
    return parse_scoped_limits(json.dumps(document, indent=1).encode(), "limits.json")


def refused(*rows, version=1, **more):
    with pytest.raises(ConfigurationRefused) as error:
        parse(*rows, version=version, **more)
    return "\n".join(error.value.problems)


def raw(limits, version=1):
    """A row whose fields are JSON as it stands."""
    return f'{{"version": {version}, "limits": [{{"scope": "acme/web", {limits}}}]}}'.encode()


# The sentences of the reference that state a rule.


def test_the_version_is_required_and_a_newer_one_is_refused_loudly():
    for version in (
        "",
        '"version": "1",',
        '"version": 0,',
        '"version": 1.5,',
        '"version": true,',
        '"version": null,',
    ):
        with pytest.raises(ConfigurationRefused, match="version must be an integer from 1 to 3"):
            parse_scoped_limits(f'{{{version} "limits": []}}'.encode(), "f")
    for version in (4, 5, 1e21):
        assert "written by a newer pidispatch" in refused(version=version)
    for version in (1, 2, 3):
        assert parse(version=version) == ScopedLimits((), version)


def test_a_file_of_a_newer_version_is_judged_by_nothing_else():
    assert len(refused({"scope": "*"}, {"day": 0}, version=4).splitlines()) == 1


@pytest.mark.parametrize("content", [b"[]", b"null", b'"x"', b"5"])
def test_the_file_is_an_object(content):
    with pytest.raises(ConfigurationRefused, match='must be an object with "version" and "limits"'):
        parse_scoped_limits(content, "f")


@pytest.mark.parametrize("limits", ["", '"limits": null,', '"limits": {},', '"limits": "x",'])
def test_limits_is_a_list_of_objects(limits):
    with pytest.raises(ConfigurationRefused, match="limits must be a list"):
        parse_scoped_limits(f'{{{limits} "version": 1}}'.encode(), "f")
    for row in (None, 5, [], "acme/web"):
        assert "limits[0]: must be an object" in refused(row)


@pytest.mark.parametrize("scope", [None, 5, "", "  ", [], {}, True])
def test_a_scope_is_a_text_that_is_not_empty(scope):
    for version in (1, 2, 3):
        assert "scope must be a text that is not empty" in refused(
            {"scope": scope, "day": 1}, version=version
        )


@pytest.mark.parametrize("scope", ["*", " * ", "acme/*", "*/web", "/srv/*"])
def test_a_star_is_refused_alone_and_inside(scope):
    for version in (1, 2, 3):
        assert "scope must not" in refused({"scope": scope, "day": 1}, version=version)


@pytest.mark.parametrize(
    "spelled", ["/srv/site", "/srv/site/", "/srv//site", "/srv/x/../site", " /srv/site ", "//srv/site"]
)
def test_the_spellings_of_one_folder_are_one_scope(spelled):
    limits = parse({"scope": spelled, "day": 2})

    assert limits.rows[0].scope == "/srv/site"
    for asked in ("/srv/site", "/srv/site/", "/srv//./site", " /srv/site", "//srv/site", "/srv/x/../site"):
        assert limits.limit_for("local", asked) is limits.rows[0]
    assert limits.for_folder_key(folder_scope("/srv/site")) is limits.rows[0]
    assert limits.limit_for("local", "/Srv/Site") is None  # case is not folded


def test_links_are_not_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    limits = parse({"scope": f"{tmp_path}/real", "day": 1})

    assert limits.limit_for("local", f"{tmp_path}/link") is None


def test_a_relative_folder_counts_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    limits = parse({"scope": f"{tmp_path}/a/b", "day": 1}, {"scope": "a/b", "day": 2})

    assert limits.limit_for("local", "a/b").day == 1
    assert limits.limit_for("github", "a/b").day == 2  # a folder and a repository of one name never meet


def test_both_sides_are_composed_alike():
    for written, asked in ((NFC, NFD), (NFD, NFC)):
        assert parse({"scope": written, "day": 1}).limit_for("github", asked).scope == NFC
        assert parse({"scope": f"/srv/{written}", "day": 1}).limit_for("local", f"/srv/{asked}").day == 1


def test_a_forges_scope_matches_exactly():
    limits = parse({"scope": "acme/web", "day": 1})

    for asked in ("acme/web/", "Acme/web", " acme/web", "acme/web2", "acme", "", "  "):
        assert limits.limit_for("github", asked) is None
    assert limits.limit_for("gitlab", "acme/web") is limits.rows[0]  # bare is every forge


def test_a_path_of_another_platform_stays_as_it_is_and_reaches_nothing():
    for version in (1, 2, 3):
        limits = parse({"scope": "C:\\srv\\site", "day": 1}, version=version)
        assert limits.rows[0].scope == "C:\\srv\\site"
        assert "names no folder and no repository here" in limits.notes[0]


@pytest.mark.parametrize("field", ["day", "week", "month", "concurrent"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "1e21", '"5"', "true", "false", "[]", "{}", '"1,5"', "9007199254740992", '""', '"x"'])  # fmt: skip
def test_a_count_is_a_whole_number_from_1_that_can_still_count(field, value):
    for version in (1, 2, 3):
        with pytest.raises(ConfigurationRefused) as error:
            parse_scoped_limits(raw(f'"{field}": {value}', version), "f")
        assert error.value.problems == (
            f'f:1: limits[0] (scope "acme/web"): {field} must be an integer >= 1, written without quotes',
        )


@pytest.mark.parametrize("value", ["NaN", "1,5", "Infinity", "1e999", "05", "0x5"])
def test_what_json_does_not_know_is_refused_as_such(value):
    with pytest.raises(ConfigurationRefused, match="is not valid JSON"):
        parse_scoped_limits(raw(f'"day": {value}'), "f")


@pytest.mark.parametrize(
    ("value", "count"), [("1", 1), ("5.0", 5), ("1e1", 10), ("9007199254740991", 2**53 - 1)]
)
def test_whole_numbers_may_be_written_like_javascript_writes_them(value, count):
    assert parse_scoped_limits(raw(f'"day": {value}'), "f").rows[0].day == count


def test_null_is_absent_so_that_what_is_written_out_reads_back():
    row = {"scope": "acme/web", "day": 5, "week": None, "month": None, "concurrent": None}

    assert parse(row).rows == (ScopeLimit("acme/web", ScopeKind.REPO, "acme/web", day=5),)


@pytest.mark.parametrize("row", [{}, {"day": None}, {"note": "x"}])
def test_a_row_that_limits_nothing_is_refused(row):
    assert "limits nothing" in refused({"scope": "acme/web", **row})


def test_unknown_fields_are_dropped_and_noted_in_the_first_two_versions_and_refused_in_the_third():
    row = {"scope": "acme/web", "day": 1, "owner": "me"}
    for version in (1, 2):
        limits = parse(row, version=version, comment="mine")
        assert limits.rows == (ScopeLimit("acme/web", ScopeKind.REPO, "acme/web", day=1),)
        assert [note.split(": ")[-1] for note in limits.notes] == [
            '"owner" is unknown here and ignored', '"comment" is unknown here and ignored',
        ]  # fmt: skip
    assert '"owner" is unknown here' in refused(row, version=3)


@pytest.mark.parametrize(
    ("version", "key", "needed"),
    [(1, "dayUsd", 2), (1, "weekUsd", 2), (1, "monthUsd", 2), (1, "memory", 3), (2, "memory", 3), (2, "hostShare", 3), (2, "minJobs", 3)],
)  # fmt: skip
def test_a_bound_that_only_a_later_version_reads_is_refused(version, key, needed):
    row = {"scope": "acme/web", "day": 1, key: "5"}

    assert f'{key} needs "version": {needed}, this file is of version {version}' in refused(
        row, version=version
    )
    assert parse({**row, key: None}, version=version).rows[0].day == 1


@pytest.mark.parametrize("key", ["DAY", "daily", "dayUSD", "day_usd", "dailyUsd", "Concurrent", "concurrency", "monthly", "c\u043encurrent"])  # fmt: skip
def test_a_key_that_was_meant_to_bound_something_is_refused(key):
    for version in (1, 2, 3):
        assert "is not a key" in (
            said := refused({"scope": "acme/web", "week": 1, key: 5}, version=version)
        ) or (version == 3 and "is unknown here" in said)


@pytest.mark.parametrize("scope", ["~/site", "./site", "../site", "~"])
def test_a_folder_that_is_not_absolute_limits_nothing_and_is_refused(scope):
    for version in (1, 2, 3):
        assert "must be an absolute folder" in refused({"scope": scope, "day": 1}, version=version)


@pytest.mark.parametrize(
    ("first", "second"),
    [("acme/web", "acme/web"), ("acme/web", " acme/web "), ("/srv/site", "/srv//site/"), (NFC, NFD)],
)
def test_two_rows_for_one_scope_are_refused(first, second):
    assert "duplicate scope" in refused({"scope": first, "day": 1}, {"scope": second, "week": 1})


def test_a_folders_concurrent_above_one_is_accepted():
    # Who asks takes the smaller of this and one.
    assert parse({"scope": "/srv/site", "concurrent": 4}).rows[0].concurrent == 4


def test_a_row_of_only_concurrent_holds_no_budget():
    row = parse({"scope": "acme/web", "concurrent": 2}).rows[0]

    assert (row.day, row.week, row.month) == (None, None, None)


def test_every_problem_is_told_with_its_line_and_none_of_the_values():
    said = refused({"scope": "acme/web", "day": 987654.5}, {"scope": "/srv/x", "week": "s3cret"})

    assert said.splitlines() == [
        'limits.json:6: limits[0] (scope "acme/web"): day must be an integer >= 1, written without quotes',
        'limits.json:10: limits[1] (scope "/srv/x"): week must be an integer >= 1, written without quotes',
    ]


def test_a_prefix_in_the_first_version_stays_a_text_that_reaches_nothing():
    limits = parse({"scope": "github:acme/web", "day": 1})

    assert limits.limit_for("github", "acme/web") is None
    assert 'a prefix needs "version": 2' in limits.notes[0]


# Versions 2 and 3.


@pytest.mark.parametrize(
    ("scope", "kind", "subject"),
    [
        ("acme/web", "repo", "acme/web"),
        ("group/sub/project", "repo", "group/sub/project"),
        ("github:acme/web", "qualified", "acme/web"),
        ("gitlab:group/sub/project", "qualified", "group/sub/project"),
        ("forgejo:a/b", "qualified", "a/b"),
        ("azure:org/project/repo", "qualified", "org/project/repo"),
        ("project:web-1", "project", "web-1"),
        ("/srv/a:b", "local", "/srv/a:b"),
    ],
)
def test_later_versions_tell_scopes_apart_by_their_form(scope, kind, subject):
    for version in (2, 3):
        (row,) = parse({"scope": f" {scope} ", "day": 1}, version=version).rows
        assert (row.scope, row.kind, row.subject) == (scope, kind, subject)


@pytest.mark.parametrize(
    "scope",
    ["Model:a/b", "models:a/b", "Project:web", "projects:web", "GitHub:acme/web", "github :acme/web", "gh:acme/web",
     "github:acme", "github:acme/", "github:/web", "github:acme//web", "github:acme/web#1", "github: acme/web",
     "github:acme /web", "github:a:b/c", "project:", "project:Web", "project:a_b", "project:" + "a" * 33, "model:",
     "model:anthropic", "model:/x", "model:a/", "web", "acme/web#5", "./site", "mod\u0435l:a/b"],
)  # fmt: skip
def test_near_misses_of_a_form_are_refused(scope):
    for version in (2, 3):
        assert "scope" in refused({"scope": scope, "dayUsd": "1"}, version=version)


def test_a_bare_repository_beside_a_qualified_one_is_refused():
    said = refused({"scope": "acme/web", "day": 1}, {"scope": "gitlab:acme/web", "day": 1}, version=2)

    assert "stands beside limits[0]" in said
    assert parse({"scope": "github:acme/web", "day": 1}, {"scope": "gitlab:acme/web", "day": 2}, version=2)


def test_a_qualified_row_is_of_one_forge():
    limits = parse({"scope": "github:acme/web", "day": 1}, version=2)

    assert limits.limit_for("github", "acme/web") is limits.rows[0]
    assert limits.limit_for("gitlab", "acme/web") is None


def test_projects_and_models_are_found_by_name():
    limits = parse(
        {"scope": "project:web", "day": 1}, {"scope": "model:Anthropic/Claude-X", "dayUsd": "5"},
        {"scope": "model:openrouter/qwen/qwen3", "weekUsd": 5}, version=2,
    )  # fmt: skip

    assert limits.project_limit("web").day == 1
    assert limits.project_limit("api") is None
    assert limits.model_limit("anthropic", "claude-x").day_micros == 5_000_000
    assert [row.subject for row in limits.model_limits] == ["anthropic/claude-x", "openrouter/qwen/qwen3"]


def test_models_are_the_same_whatever_their_case():
    rows = [{"scope": f"model:{name}", "dayUsd": "5"} for name in ("Anthropic/X", "anthropic/x")]

    assert "duplicate scope" in refused(*rows, version=2)


@pytest.mark.parametrize("field", ["day", "week", "month", "concurrent"])
def test_a_model_takes_only_dollars(field):
    for version in (2, 3):
        said = refused({"scope": "model:a/b", "dayUsd": "5", field: 1}, version=version)
        assert f"{field} is not for a model" in said


@pytest.mark.parametrize(
    ("written", "micros"),
    [('"5"', 5_000_000), ("5", 5_000_000), ("0.1", 100_000), ('"0.000001"', 1), ("1000000", 10**12)],
)
def test_dollars_are_exact_micros(written, micros):
    for version in (2, 3):
        row = parse_scoped_limits(raw(f'"weekUsd": {written}', version), "f").rows[0]
        assert (row.day_micros, row.week_micros, row.month_micros) == (None, micros, None)


@pytest.mark.parametrize(
    "written", ["0", '"0"', "-1", '"1,5"', "1e2", "1e21", '"1e2"', "1000000.01", "0.0000001", "true", '""', '" 5"', '"$5"', "[]"]
)  # fmt: skip
def test_what_is_no_amount_is_refused(written):
    for version in (2, 3):
        with pytest.raises(ConfigurationRefused, match="dayUsd must be an amount of US dollars"):
            parse_scoped_limits(raw(f'"dayUsd": {written}', version), "f")


def project(**fields):
    return {"scope": "project:web", **fields}


def test_a_project_has_a_size_in_the_third_version():
    (row,) = parse(project(memory="1536m", cpus="1.5", hostShare=50, minJobs=2, concurrent=3), version=3).rows

    assert (row.memory_mib, row.cpu_hundredths, row.host_share, row.min_jobs) == (1536, 150, 50, 2)
    assert parse(project(memory="1g", cpus=None), version=3).rows[0].memory_mib == 1024
    assert parse(project(cpus=0.25), version=3).rows[0].cpu_hundredths == 25


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"memory": "511m"}, "memory"), ({"memory": "1025g"}, "memory"), ({"memory": "4G"}, "memory"),
        ({"memory": "4"}, "memory"), ({"memory": 4}, "memory"), ({"memory": "04g"}, "memory"),
        ({"cpus": "0.24"}, "cpus"), ({"cpus": 257}, "cpus"), ({"cpus": "1.234"}, "cpus"), ({"cpus": True}, "cpus"),
        ({"hostShare": 0}, "hostShare"), ({"hostShare": 101}, "hostShare"), ({"hostShare": "50"}, "hostShare"),
        ({"minJobs": 1}, "minJobs"), ({"minJobs": 0, "cpus": 1}, "minJobs"),
        ({"minJobs": 3, "cpus": 1, "concurrent": 2}, "minJobs"),
    ],
)  # fmt: skip
def test_sizes_have_bounds(fields, field):
    assert f'(scope "project:web"): {field} ' in refused(project(**fields), version=3)


@pytest.mark.parametrize("scope", ["acme/web", "/srv/site", "github:acme/web", "model:a/b"])
def test_sizes_are_for_projects_only(scope):
    row = {"scope": scope, "dayUsd": "1", "hostShare": 5, "memory": None}

    assert "hostShare is for a project only" in refused(row, version=3)


VALUES = st.none() | st.booleans() | st.integers(-2, 9) | st.floats() | st.sampled_from(
    ["acme/web", "/srv//x", "github:a/b", "model:a/b", "project:x", "*", "5", "1.5", "4g", "", "\0"]
) | st.text(max_size=5) | st.lists(st.none(), max_size=1)  # fmt: skip
ROWS = st.dictionaries(
    st.sampled_from(["scope", "day", "week", "concurrent", "dayUsd", "memory", "cpus", "minJobs", "other"]),
    VALUES,
)


@given(st.integers(0, 4) | VALUES, st.lists(ROWS | VALUES, max_size=3))
def test_no_content_raises_anything_but_a_refusal(version, rows):
    content = json.dumps({"version": version, "limits": rows}).encode()
    try:
        limits = parse_scoped_limits(content, "f")
    except ConfigurationRefused:
        return
    assert len({(row.kind, row.scope) for row in limits.rows}) == len(rows)


COUNTS = st.integers(1, 2**53 - 1) | st.none()


@given(st.dictionaries(st.sampled_from(["acme/web", "/srv/x", "a/b/c", "C:\\x", "odd"]),
                       st.tuples(st.integers(1, 2**53 - 1), COUNTS, COUNTS, COUNTS)))  # fmt: skip
def test_what_was_parsed_parses_again_to_the_same(rows):
    names = ("day", "week", "month", "concurrent")
    limits = parse(
        *({"scope": scope, **dict(zip(names, counts, strict=True))} for scope, counts in rows.items())
    )

    again = parse(
        *({"scope": row.scope, **{name: getattr(row, name) for name in names}} for row in limits.rows)
    )

    assert again == limits
