"""`triggers test`: which entry stops an event at which gate, and what would start."""

import io
import json
import os
import sys

import pytest

from pidispatch.domain.triggers.subject import RunSubject
from pidispatch.store.triggers.arrivals import Arrivals
from tests.store.arriving import an_arrival
from tests.store.builders import a_host, value
from tests.support.breaking import open_one

ENTRIES = [
    {
        "on": {"type": "cron", "id": "nightly", "pattern": "30 2 * * *"},
        "run": {"kind": "local", "folder": "/r", "flow": "tidy", "task": "x"},
    },
    {
        "id": "fix",
        "on": {"type": "label", "any": ["pi"], "repo": "acme/web", "while_running": "skip"},
        "run": {"kind": "github", "flow": "fix", "priority": 5, "replicas": 2},
    },
    {"id": "mr", "on": {"type": "label", "any": ["pi"]}, "run": {"kind": "gitlab", "flow": "fix"}},
    {
        "id": "said",
        "on": {"type": "comment", "phrase": "@pi"},
        "run": {
            "kind": "github",
            "flow": "answer",
            "waitFor": [{"after": "2026-12-01T06:00:00Z"}, {"profile": "ci"}],
        },
    },
    {
        "id": "close",
        "on": {"type": "issue", "action": ["closed"], "number": 12, "once": True},
        "run": {"kind": "github", "command": "follow up", "secrets": {"TOKEN": "op://x/y"}},
    },
    {
        "id": "used",
        "on": {
            "type": "issue",
            "action": ["closed"],
            "number": 12,
            "once": True,
            "disarmed": {"at": "2026-11-29T12:00:00Z"},
        },
        "run": {"kind": "github", "flow": "again"},
    },
    {
        "id": "review",
        "on": {"type": "pull_request", "action": ["review_submitted"], "reviewState": ["approved"]},
        "run": {"kind": "github", "flow": "merge"},
    },
]
LABELLED = {
    "forge": "github", "route": "issue", "action": "labeled", "repo": "acme/web", "number": 7, "labels": ["pi"], "sender": 42,
}  # fmt: skip
SAID = LABELLED | {"route": "comment", "action": "created", "comment": "please @pi", "allowed": True}
CLOSED = LABELLED | {"action": "closed", "number": 12, "allowed": True}
REVIEWED = LABELLED | {"route": "pull_request", "action": "review_submitted", "allowed": True}
COUNTED = ("runs", "deliveries", "subjects", "one_shots", "audit_log")


@pytest.fixture
def files(bare, tmp_path):
    (tmp_path / "triggers.json").write_text(json.dumps({"triggers": ENTRIES}))
    bare.setenv("PI_TRIGGERS_FILE", str(tmp_path / "triggers.json"))
    return tmp_path


def asker(command, files):
    def ask(event, *arguments):
        (files / "event.json").write_text(json.dumps(event))
        return command("triggers", "test", "--event", str(files / "event.json"), *arguments)

    return ask


@pytest.fixture
def ask(pidispatch, files):
    return asker(pidispatch, files)


@pytest.fixture
def ask_without_rows(command, files):
    return asker(command, files)


def lines_of(said):
    return [" ".join(line.split()) for line in said.out.splitlines()]


def test_every_entry_says_where_it_stopped_and_the_first_match_what_would_start(ask, database):
    before = [value(database, f"SELECT count(*) FROM {table}") for table in COUNTED]

    said = ask(LABELLED)

    assert (said.code, said.err) == (0, "")
    assert lines_of(said) == [
        "id place gate what it says reason",
        "nightly triggers[0], line 1 forge a schedule: no event starts it other-forge",
        "fix triggers[1], line 1 matches: label by 'pi'",
        "mr triggers[2], line 1 forge it waits for gitlab, the event is of github other-forge",
        "said triggers[3], line 1 event it waits for a comment, the event's route is issue other-event",
        "close triggers[4], line 1 action the action labeled does not start it: it waits for closed no-matching-close-trigger",
        "used triggers[5], line 1 armed it was used up at 2026-11-29T12:00:00Z, as marked by hand disarmed",
        "review triggers[6], line 1 event it waits for a pull request, the event's route is issue other-event",
        "",
        "would start fix",
        "kind github",
        "does flow fix",
        "target acme/web#7",
        "subject github:acme/web #7 fix (545bf90604b1bd848721e29a57cbef30)",
        "priority 5",
        "replicas 2",
        "while running skip: no run of the same subject stands in its way",
        "failures none: it is not held back",
    ]
    assert [value(database, f"SELECT count(*) FROM {table}") for table in COUNTED] == before


@pytest.mark.parametrize(
    ("event", "entry", "words"),
    [
        (LABELLED | {"labels": ["bug"]}, "fix", "content it waits for the label pi, the event has labels: bug no-allow"),
        (LABELLED | {"added": []}, "fix", "content the event added no label no-label-change"),
        (LABELLED | {"repo": "acme/api"}, "fix", "repository it waits for acme/web, the event is of acme/api other-repo"),
        (LABELLED | {"repo": None}, "fix", "repository the event names no repository no-repository"),
        (LABELLED | {"action": "unlabeled"}, "fix", "action the action unlabeled does not start it action-not"),
        (LABELLED | {"action": "opened"}, "fix", "authority all else matches; whether the person may start runs is not said"),
        (LABELLED | {"action": "opened", "allowed": False}, "fix", "authority who wrote it may not start runs author-not"),
        (SAID | {"comment": "a @pip"}, "said", "content the comment 'a @pip' does not hold '@pi' as a word of its own"),
        (CLOSED | {"number": 13}, "close", "number it waits for #12, the event is of #13 close-number-not-matched"),
        (CLOSED | {"allowed": False}, "close", "authority who closed it may not start runs closer-not-allowed"),
        (REVIEWED | {"reviewState": "commented"}, "review", "content the review only comments, and says nothing of its own"),
        (REVIEWED | {"reviewState": "changes_requested"}, "review",
         "content it waits for a review that is approved, this one is changes_requested review-state-not-matched"),
        (REVIEWED | {"action": "opened"}, "review",
         "action the action opened does not start it: it waits for review_submitted no-matching-pr-trigger"),
        (REVIEWED | {"reviewState": "approved", "allowed": False}, "review",
         "authority who wrote the review may not start runs review-author-not-allowed"),
    ],
)  # fmt: skip
def test_each_gate_says_in_words_why_it_stopped(ask_without_rows, event, entry, words):
    said = ask_without_rows(event)

    (line,) = [line for line in lines_of(said) if line.startswith(f"{entry} ")]
    assert line.split(", line 1 ")[1].startswith(words)
    assert said.code == 0
    assert lines_of(said)[-1].startswith("nothing starts: ")


def test_what_is_asked_for_the_person_is_said(ask_without_rows):
    said = ask_without_rows(CLOSED | {"allowed": None})

    assert lines_of(said)[-1] == "nothing starts: whose rights decide was not said (authority-not-asked)"


def test_an_event_at_fault_asks_no_entry(ask_without_rows):
    said = ask_without_rows(LABELLED | {"sender": None})

    words = "nothing starts, and no entry is asked: it names no sender (missing-sender-id)\n"
    assert (said.code, said.out) == (0, words)
    found = ask_without_rows(LABELLED | {"number": None}, "--json").document
    assert (found["event_problem"], found["dropped"], found["entries"]) == (
        "it names no number of an issue",
        "missing-issue-number",
        [],
    )


def test_a_comment_names_the_flow_and_what_is_waited_for_is_said(ask):
    lines = lines_of(ask(SAID | {"comment": "@pi merge"}))

    assert "does flow merge" in lines
    assert "waits for 2026-12-01 06:00:00Z to pass and ci to say go" in lines


def test_a_later_entry_that_matches_too_is_told_as_such(ask, files):
    second = {
        "id": "second",
        "on": {"type": "label", "any": ["pi"]},
        "run": {"kind": "github", "flow": "other"},
    }
    (files / "triggers.json").write_text(json.dumps({"triggers": [*ENTRIES, second]}))

    lines = lines_of(ask(LABELLED))

    words = "matches too, but an entry that is asked before it does: label by 'pi'"
    assert f"second triggers[7], line 1 {words}" in lines
    assert "would start fix" in lines


def test_a_file_without_entries_starts_nothing(ask_without_rows, files):
    (files / "triggers.json").write_text('{"triggers": []}')

    assert ask_without_rows(LABELLED).out == f"nothing starts: {files}/triggers.json has no entry\n"


def test_a_pipe_is_no_file(command, files):
    os.mkfifo(files / "pipe")

    said = command("triggers", "test", "--event", str(files / "pipe"))

    assert said.code == 2
    assert "pipe: is not a regular file" in said.err


def test_a_one_shot_says_whether_it_is_used_up(ask, database):
    a_host(database)
    before = lines_of(ask(CLOSED))
    Arrivals(database).arrive(an_arrival(subject=RunSubject("github:acme/web", "#12", "x"), one_shot="close"))
    run = value(database, "SELECT public_id FROM runs")
    with database.transaction() as connection:
        connection.exec_driver_sql("INSERT INTO one_shots (key, run_id) SELECT 'close', id FROM runs")

    assert "one-shot close: not used up; this run would use it up" in before
    assert "does /follow up" in before
    assert "not enforced yet run.secrets" in before
    (line,) = [line for line in lines_of(ask(CLOSED)) if line.startswith("one-shot")]
    assert line.startswith(f"one-shot close: used up by {run} at 2")
    assert line.endswith("so the run is refused (once-already-spent)")


@pytest.mark.parametrize(
    ("policy", "words", "kind"),
    [
        ("queue", "queue: {} waits for the same subject and takes the content of this event", "coalesced"),
        ("skip", "skip: {} is there, so nothing starts", "skipped"),
        ("parallel", "parallel: no run of the same subject stands in its way", "started"),
    ],
)
def test_a_run_of_the_same_subject_is_told_by_what_becomes_of_the_event(
    ask, files, database, policy, words, kind
):
    a_host(database)
    entry = {"on": ENTRIES[1]["on"] | {"while_running": policy}, "run": {"kind": "github", "flow": "fix"}}
    (files / "triggers.json").write_text(json.dumps({"triggers": [entry]}))
    Arrivals(database).arrive(an_arrival())
    run = value(database, "SELECT public_id FROM runs")

    assert f"while running {words.format(run)}" in lines_of(ask(LABELLED))
    rows = ask(LABELLED, "--json").document["would_start"]["rows"]
    assert (rows["would_be"], rows["run"]) == (kind, None if kind == "started" else run)


def test_a_trigger_that_is_held_back_is_said(ask, database):
    a_host(database)
    open_one(database, "fix")

    (line,) = [line for line in lines_of(ask(LABELLED)) if line.startswith("failures")]
    assert line.startswith("failures held back: trigger fix since 2")
    breaker = ask(LABELLED, "--json").document["would_start"]["rows"]["breaker"]
    assert (breaker["trigger_id"], breaker["failures"]) == ("fix", 3)


def test_a_program_gets_keys_that_stay(ask):
    found = ask(CLOSED, "--json").document

    assert list(found) == ["file", "event_problem", "dropped", "entries", "would_start", "without_rows"]
    assert list(found["entries"][0]) == [
        "id", "index", "line", "matches", "matched", "by", "gate", "reason", "in_words",
    ]  # fmt: skip
    assert found["entries"][4] == {
        "id": "close", "index": 4, "line": 1, "matches": True, "matched": "issue", "by": "closed", "gate": None,
        "reason": None, "in_words": None,
    }  # fmt: skip
    assert found["would_start"] == {
        "id": "close", "kind": "github", "flow": None, "command": "follow up", "not_enforced": ["secrets"],
        "target": "acme/web#12",
        "subject": {"key": found["would_start"]["subject"]["key"], "scope": "github:acme/web", "item": "#12",
                    "lane": "closed:cmd:follow up"},
        "priority": 0, "replicas": None, "one_shot": "close", "while_running": "queue", "wait_for": [],
        "rows": {"spent_by": None, "spent_at": None, "would_be": "started", "run": None, "breaker": None},
    }  # fmt: skip


def test_without_a_database_what_only_rows_know_is_said_to_be_missing(ask_without_rows, bare):
    bare.setenv("DATABASE_URL", "postgresql://u:hunter2-s3cret@/d?host=/nonexistent")

    said = ask_without_rows(CLOSED)

    assert said.code == 1
    unknown = "not known: the database cannot be asked"
    assert lines_of(said)[-3:] == [
        f"one-shot close: {unknown}",
        f"while running queue: {unknown}",
        f"failures {unknown}",
    ]
    assert "what stands in its way is not known: Postgres does not answer" in said.err
    assert "hunter2" not in said.out + said.err
    assert ask_without_rows(CLOSED, "--json").document["would_start"]["rows"] is None


def test_an_event_comes_by_standard_input_too(command, files, monkeypatch):
    content = json.dumps(LABELLED | {"labels": []}).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    said = command("triggers", "test", "--event", "-")

    assert said.code == 0
    assert "no-allowlisted-label" in said.out


def test_an_event_that_is_refused_names_file_line_and_field(ask_without_rows, files):
    said = ask_without_rows(LABELLED | {"forge": "hub", "repository": "acme/web"})

    assert (said.code, said.out) == (2, "")
    first, second = said.err.splitlines()
    assert first == f"pidispatch: {files}/event.json:1: forge must be one of github, gitlab, forgejo, azure"
    assert '"repository" is unknown here; known are forge, delivery, event,' in second


def test_what_cannot_be_asked_is_refused(command, files, bare):
    missing = command("triggers", "test", "--event", str(files / "none.json"))
    assert (missing.code, missing.out) == (2, "")
    assert "none.json: does not exist" in missing.err

    (files / "event.json").write_text(json.dumps(LABELLED))
    (files / "triggers.json").write_text('{"triggers": [{}]}')
    refused = command("triggers", "test", "--event", str(files / "event.json"))
    assert refused.code == 2
    assert "triggers.json:1: triggers[0]" in refused.err

    bare.delenv("PI_TRIGGERS_FILE")
    nothing = command("triggers", "test", "--event", str(files / "event.json"))
    assert nothing.code == 2
    assert "PI_TRIGGERS_FILE is not set" in nothing.err


def test_nothing_of_an_event_moves_a_cursor(ask_without_rows):
    odd = "\x1b[31m\u202e"
    for event in (
        SAID | {"comment": odd},
        LABELLED | {"repo": f"acme/{odd}"},
        LABELLED | {"labels": [odd]},
        CLOSED | {"action": odd},
    ):
        said = ask_without_rows(event)
        assert not {"\x1b", "\u202e"} & set(said.out + said.err)
