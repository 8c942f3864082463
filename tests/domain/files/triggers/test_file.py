"""`triggers.json` as a whole: what is refused, with its place, and what is only noted."""

import pytest

from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    IssueEvent,
    LabelEvent,
    Labels,
    PullRequestEvent,
)
from pidispatch.errors import ConfigurationRefused
from tests.domain.files.triggers.builders import (
    ABSENT,
    AZURE,
    CLOSE,
    COMMENT,
    CRON,
    ISSUE,
    LABEL,
    PULL,
    changed,
    parse,
    problems,
    refused,
    text,
)


def test_each_type_means_what_it_says():
    found = parse(CRON, LABEL, COMMENT, PULL, changed(CLOSE, on={"number": 41}), ISSUE, AZURE).entries

    assert [each.type for each in found] == [
        "cron",
        "label",
        "comment",
        "pull_request",
        "pull_request",
        "issue",
        "label",
    ]
    assert [each.index for each in found] == list(range(7))
    assert found[0].on == Cron("0 3 * * *")
    assert found[0].id == "nightly"
    assert (found[0].work.kind, found[0].work.folder, found[0].work.task) == (
        "local",
        "/srv/site",
        "Tidy up",
    )
    assert found[1].on == LabelEvent(Labels(any_of=("pi",)))
    assert found[2].on == CommentEvent("@pi")
    assert found[3].on == PullRequestEvent(("opened",))
    assert found[4].on == PullRequestEvent(("closed",), number=41, once=True)
    assert found[5].on == IssueEvent(("closed",), number=40, once=True)
    assert found[6].work.repository == "web"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{", "triggers.json:1: is not valid JSON: it ends where a key or '}' must stand"),
        (b'{"triggers": [], // x\n}', "triggers.json:1: is not valid JSON: what stands here is not a key"),
        (b"\n[]", 'triggers.json:2: must be an object with "triggers"'),
        (b"{}", 'triggers.json:1: "triggers" must be a list of entries'),
        (b'{\n"triggers": {}}', 'triggers.json:2: "triggers" must be a list of entries'),
        (b'{"triggers": [],\n "triggers": []}', 'the key "triggers" is there twice (first on line 1)'),
        (b'{"triggers": [{"run": {"a": {"b": 1,\n"b": 2}}}]}', 'triggers.json:2: is not valid JSON: the key "b" is there twice'),
        (b'{"triggers": [\n1]}', "triggers.json:2: triggers[0]: must be an object"),
        (b'{"triggers": [{"on": [], "run": {}}]}', "triggers[0]: on must be an object"),
        (b'{"triggers": [{"on": {}, "run": null}]}', "triggers[0]: run must be an object"),
        (b'{"triggers": [{"on": {}}]}', "triggers[0]: run must be an object"),
    ],
)  # fmt: skip
def test_what_is_no_file_of_triggers_is_refused_with_its_line(content, problem):
    with pytest.raises(ConfigurationRefused) as error:
        parse_triggers(content, "triggers.json")

    assert problem in error.value.problems[0]
    assert len(error.value.problems) == 1


@pytest.mark.parametrize("written", ["disarmed", "Cron", "", None, 5, ABSENT])
def test_an_unknown_type_is_told_the_known_ones(written):
    assert "on.type must be one of cron, label, comment, pull_request, issue" in refused(
        changed(LABEL, on={"type": written})
    )


@pytest.mark.parametrize("written", ["bitbucket", "GitHub", None, ["github"], ABSENT])
def test_an_unknown_kind_is_told_the_known_ones(written):
    assert "run.kind must be one of local, github, gitlab, forgejo, azure" in refused(
        changed(LABEL, run={"kind": written})
    )


@pytest.mark.parametrize("kind", ["github", "gitlab", "forgejo", "azure"])
def test_a_schedule_runs_in_a_folder_and_never_for_a_forge(kind):
    assert "run.kind must be local with cron" in refused(changed(CRON, run={"kind": kind}))


@pytest.mark.parametrize("entry", [LABEL, COMMENT, PULL, CLOSE, ISSUE])
def test_an_event_of_a_forge_never_runs_in_a_folder(entry):
    assert "run.kind must be one of github, gitlab, forgejo, azure" in refused(
        changed(entry, run={"kind": "local"})
    )


def test_each_bad_entry_is_named_with_its_line_and_its_id():
    content = b"""{"triggers": [
      {"on": {"type": "label"}, "run": {"kind": "github", "flow": "fix"}},
      {"id": "good", "on": {"type": "label", "any": ["pi"]}, "run": {"kind": "github", "flow": "fix"}},
      {"on": {"type": "cron", "id": "nightly",
              "pattern": "@daily"}, "run": {"kind": "local"}}
    ]}"""

    with pytest.raises(ConfigurationRefused) as error:
        parse_triggers(content, "/etc/t.json")

    first, second = error.value.problems
    assert first.startswith("/etc/t.json:2: triggers[0]: on.any or on.all must name")
    assert second.startswith('/etc/t.json:5: triggers[2] (id "nightly"): on.pattern must have 5 fields')


def test_a_file_of_many_faults_is_told_with_the_first():
    found = problems(*[changed(LABEL, on={"type": "x"})] * 60)

    assert len(found) == 51
    assert found[-1].endswith("10 more problems")


def test_unknown_keys_are_dropped_and_noted():
    entry = changed(LABEL, on={"colour": 1}, run={"folder": "/x", "github": True, "task": "t"}, owner="me")

    notes = "\n".join(parse(entry, version=1).notes)

    for key in (
        "triggers[0]: on.colour",
        "run.folder",
        "run.github",
        "run.task",
        "triggers[0]: owner",
        "the file: version",
    ):
        assert f"{key} is unknown here and ignored" in notes
    assert parse(entry).entries == parse(LABEL).entries


def test_remarks_are_dropped_without_a_word():
    remarks = {"_comment": "why", "//": "because", "$schema": "x", "#": 1}

    assert parse({**changed(LABEL, on=remarks, run=remarks), **remarks}, **remarks).notes == ()


def test_a_misplaced_cap_is_noted_with_where_it_belongs():
    notes = parse(changed(LABEL, maxCostUsd="1")).notes

    assert notes[-1] == 'triggers.json:1: triggers[0]: "maxCostUsd" belongs under run'


def test_two_entries_that_only_their_place_tells_apart_are_told_to_have_ids():
    assert "triggers[1]: cannot be told from triggers[0]" in parse(LABEL, LABEL).notes[0]
    assert parse(changed(LABEL, id="a"), LABEL).notes == ()
    assert parse(LABEL, changed(LABEL, run={"flow": "other"})).notes == ()


def test_a_file_without_entries_is_a_file():
    assert parse().entries == ()


def test_one_comment_is_taken_by_each_forge():
    gitlab = changed(COMMENT, run={"kind": "gitlab"})

    assert len(parse(COMMENT, gitlab).entries) == 2
    assert (
        "on.type comment is that of triggers[0] already; github takes one only"
        in problems(COMMENT, gitlab, COMMENT)[0]
    )


def test_an_entry_keeps_its_line_and_what_it_means_does_not_depend_on_it():
    moved = parse_triggers(b"\n\n" + text(LABEL), "t").entries[0]

    assert moved.line == 3
    assert moved == parse(LABEL).entries[0]
