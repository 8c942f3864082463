"""`on` of each type: each row of its grammar accepted and refused."""

import pytest

from pidispatch.domain.triggers.trigger import Disarmed, Labels
from tests.domain.files.triggers.builders import (
    ABSENT,
    AZURE,
    BY_NAME,
    CLOSE,
    COMMENT,
    CRON,
    ISSUE,
    LABEL,
    PULL,
    changed,
    one,
    problems,
    refused,
)

SPENT = {"at": "2026-11-02T10:00:00Z", "jobId": "gh-1"}

REFUSED = [
    ("cron", {"id": ABSENT}, "on.id must be a text that is not empty"),
    ("cron", {"id": " "}, "on.id must be a text that is not empty"),
    ("cron", {"id": 5}, "on.id must be a text that is not empty"),
    ("cron", {"id": "a:b"}, "on.id must not hold a colon"),
    ("cron", {"id": "a b"}, "on.id must be 1 to 200 of letters, digits, dot, dash and underscore"),
    ("cron", {"id": "né"}, "on.id must be 1 to 200 of"),
    ("cron", {"id": "a\n"}, "on.id must be 1 to 200 of"),
    ("cron", {"id": "a" * 201}, "on.id must be 1 to 200 of"),
    ("cron", {"pattern": ABSENT}, "on.pattern must be a text that is not empty"),
    ("cron", {"pattern": ["*"]}, "on.pattern must be a text that is not empty"),
    ("cron", {"pattern": "@daily"}, "on.pattern must have 5 fields, or 6 with seconds first; this has 1"),
    ("cron", {"pattern": "* * * *"}, "this has 4"),
    ("cron", {"pattern": "* * * * * * *"}, "this has 7"),
    ("cron", {"number": 1}, "on.number does not go with cron"),
    ("cron", {"once": False}, "on.once does not go with cron"),
    ("cron", {"disarmed": None}, "on.disarmed does not go with cron"),
    ("label", {"any": ABSENT}, "on.any or on.all must name at least one label"),
    ("label", {"any": [], "all": [], "none": ["x"]}, "on.any or on.all must name at least one label"),
    ("label", {"any": "pi"}, "on.any must be a list of labels"),
    ("label", {"any": None}, "on.any must be a list of labels"),
    ("label", {"all": ["a", " "]}, "on.all must be a list of labels"),
    ("label", {"none": [5]}, "on.none must be a list of labels"),
    ("label", {"number": 40}, "on.number works with a close alone"),
    ("label", {"once": False}, "whose only action is the close word (github: closed, gitlab: close, forgejo: closed)"),
    ("label", {"disarmed": SPENT}, "on.disarmed is the mark of a one-shot that was used up, and this entry cannot be one"),
    ("comment", {"phrase": ABSENT}, "on.phrase must be a text that is not empty"),
    ("comment", {"phrase": "\t"}, "on.phrase must be a text that is not empty"),
    ("comment", {"number": 40}, "on.number works with a close alone"),
    ("comment", {"once": True}, "on.once works with a close alone"),
    ("comment", {"disarmed": {}}, "on.disarmed is the mark"),
    ("pull", {"action": ABSENT}, "on.action must be a list of at least one github action of a pull request; known are labeled"),
    ("pull", {"action": []}, "on.action must be a list of at least one"),
    ("pull", {"action": "opened"}, "on.action must be a list of at least one"),
    ("pull", {"action": ["opened", "open"]}, 'on.action[1] is no github action of a pull request "open"; known are labeled, opened'),
    ("pull", {"action": [5]}, "on.action[0] is no github action"),
    ("pull", {"action": ["closed", "opened"]}, "on.action must not mix closed with others"),
    ("pull", {"action": ["labeled"]}, "on.any or on.all must name at least one label"),
    ("pull", {"any": "x"}, "on.any must be a list of labels"),
    ("pull", {"reviewState": ["approved"]}, "on.reviewState needs review_submitted in on.action"),
    ("pull", {"action": ["review_submitted"], "reviewState": []}, "on.reviewState must be a list of at least one verdict"),
    ("pull", {"action": ["review_submitted"], "reviewState": ["dismissed"]}, 'is no verdict of a review "dismissed"'),
    ("pull", {"action": ["review_submitted"], "reviewState": None}, "on.reviewState must be a list"),
    ("pull", {"number": 40}, "on.number works with a close alone"),
    ("pull", {"once": True}, "on.once works with a close alone"),
    ("pull", {"disarmed": SPENT}, "on.disarmed is the mark"),
    ("close", {"any": ["x"]}, "on.any does not go with closed"),
    ("close", {"all": []}, "on.all does not go with closed"),
    ("close", {"none": None}, "on.none does not go with closed"),
    ("close", {"number": 0}, "on.number must be an integer >= 1"),
    ("close", {"number": 1.5}, "on.number must be an integer >= 1"),
    ("close", {"number": "40"}, "on.number must be an integer >= 1"),
    ("close", {"number": None}, "on.number must be an integer >= 1"),
    ("close", {"once": "true"}, "on.once must be true or false"),
    ("close", {"once": None}, "on.once must be true or false"),
    ("close", {"number": ABSENT}, "on.once needs on.number"),
    ("close", {"disarmed": None}, "on.disarmed must be an object"),
    ("close", {"disarmed": "yes"}, "on.disarmed must be an object"),
    ("close", {"disarmed": {}}, 'on.disarmed must hold "at"'),
    ("close", {"disarmed": {"at": " "}}, 'on.disarmed must hold "at" as a text'),
    ("close", {"disarmed": {"at": "x", "jobId": None}}, 'on.disarmed must hold "jobId" as a text'),
    ("close", {"disarmed": {"at": "x", "by": "me"}}, 'on.disarmed holds the unknown key "by"; known are at, jobId'),
    ("close", {"disarmed": SPENT, "once": False}, "on.disarmed needs on.once: true"),
    ("close", {"disarmed": SPENT, "once": ABSENT}, "on.disarmed needs on.once: true"),
    ("issue", {"action": ["closed", "opened"]}, 'on.action[1] is no github action of an issue "opened"; known are closed'),
    ("issue", {"action": ABSENT}, "on.action must be a list of at least one github action of an issue"),
    ("issue", {"any": ["x"]}, 'on.any does not go with an issue, whose labels are not looked at; for labels use on.type "label"'),
    ("issue", {"none": []}, "on.none does not go with an issue"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "on", "problem"), REFUSED)
def test_what_on_does_not_take_is_refused(name, on, problem):
    assert problem in refused(changed(BY_NAME[name], on=on))


@pytest.mark.parametrize(
    ("name", "on"),
    [
        ("cron", {"id": "A.b-c_9"}), ("cron", {"id": "a" * 200}), ("cron", {"pattern": " 0 3  * * 1-5 "}),
        ("cron", {"pattern": "30 0 3 * * *"}), ("cron", {"pattern": "0\t3\xa0* * *"}),
        ("label", {"any": ["a", "b"], "all": ["c"], "none": ["d"]}), ("label", {"any": [], "all": ["c"]}),
        ("label", {"any": ["a"], "none": []}), ("comment", {"phrase": "  @pi go "}),
        ("pull", {"any": ["a"]}), ("pull", {"none": ["a"]}), ("pull", {"action": ["labeled"], "all": ["a"]}),
        ("pull", {"action": ["opened", "synchronize", "reopened"]}),
        ("pull", {"action": ["review_submitted"], "reviewState": ["approved", "changes_requested", "commented"]}),
        ("close", {"number": ABSENT, "once": ABSENT}), ("close", {"once": False, "number": ABSENT}), ("close", {"number": 4e1}),
        ("close", {"action": ["closed", "closed"]}), ("issue", {"number": ABSENT, "once": False}), ("issue", {"once": ABSENT}),
        ("issue", {"disarmed": {"at": "yesterday"}}), ("close", {"disarmed": SPENT}),
    ],
)  # fmt: skip
def test_what_on_takes_is_accepted(name, on):
    one(changed(BY_NAME[name], on=on))


VOCABULARY = {
    "github": ["labeled", "opened", "synchronize", "reopened", "review_submitted", "closed"],
    "gitlab": ["open", "update", "reopen", "approved", "close"],
    "forgejo": ["label_updated", "opened", "synchronized", "reopened", "closed"],
    "azure": ["created", "updated"],
}
EVERY_WORD = sorted(
    {word for words in VOCABULARY.values() for word in words} | {"merged", "edited", "label_cleared"}
)


@pytest.mark.parametrize("kind", VOCABULARY)
@pytest.mark.parametrize("word", EVERY_WORD)
def test_each_forge_has_its_own_words_for_a_pull_request(kind, word):
    labels = {"any": ["pi"]} if word in {"labeled", "label_updated"} else {}
    entry = changed(PULL, on={"action": [word], **labels}, run={"kind": kind})

    if word in VOCABULARY[kind]:
        assert one(entry).on.actions == (word,)
    else:
        assert (
            f'is no {kind} action of a pull request "{word}"; known are {", ".join(VOCABULARY[kind])}'
            in refused(entry)
        )


@pytest.mark.parametrize(("kind", "word"), [("github", "closed"), ("gitlab", "close"), ("forgejo", "closed")])
def test_each_forge_has_its_own_word_for_a_close(kind, word):
    for entry in (CLOSE, ISSUE):
        found = one(changed(entry, on={"action": [word]}, run={"kind": kind}))

        assert (found.on.actions, found.on.number, found.on.once) == ((word,), 40, True)
    other = "close" if word == "closed" else "closed"
    assert f'"{other}"' in refused(changed(ISSUE, on={"action": [other]}, run={"kind": kind}))


def test_azure_takes_neither_issues_nor_labels_of_pull_requests():
    pull = changed(PULL, on={"action": ["created"]}, run={"kind": "azure"})

    assert "on.type issue does not work with azure yet" in refused(changed(ISSUE, run={"kind": "azure"}))
    assert "on.any does not go with a pull request of azure" in refused(changed(pull, on={"any": []}))
    assert one(pull).on.labels == Labels()


@pytest.mark.parametrize("kind", ["gitlab", "forgejo", "azure"])
def test_only_github_tells_the_verdict_of_a_review(kind):
    action = {"gitlab": "approved", "forgejo": "opened", "azure": "created"}[kind]
    entry = changed(PULL, on={"action": [action], "reviewState": ["approved"]}, run={"kind": kind})

    assert f"on.reviewState does not go with {kind}" in refused(entry)


def test_a_forge_without_an_action_for_labels_needs_none():
    assert one(changed(PULL, on={"action": ["update"]}, run={"kind": "gitlab"})).on.labels == Labels()


def test_a_one_shot_runs_once_and_not_several_times():
    assert "on.once does not go with run.replicas" in refused(changed(ISSUE, run={"replicas": 2}))
    assert one(changed(ISSUE, on={"once": False}, run={"replicas": 2})).work.replicas == 2


def test_the_mark_of_a_one_shot_is_read():
    assert one(changed(ISSUE, on={"disarmed": SPENT})).disarmed == Disarmed("2026-11-02T10:00:00Z", "gh-1")
    assert one(changed(CLOSE, on={"disarmed": {"at": "x"}})).disarmed == Disarmed("x")


def test_an_entry_that_is_used_up_is_still_checked_whole():
    assert "run.flow must be" in refused(changed(ISSUE, on={"disarmed": SPENT}, run={"flow": "No"}))
    assert "run.portfolio goes with cron alone" in refused(
        changed(ISSUE, on={"disarmed": SPENT}, run={"portfolio": False})
    )


def test_two_schedules_of_one_id_are_refused():
    assert 'triggers[2] (id "nightly"): on.id is also that of triggers[0]' in problems(CRON, LABEL, CRON)[0]


def test_labels_and_comments_work_with_every_forge():
    for kind in ("github", "gitlab", "forgejo"):
        one(changed(LABEL, run={"kind": kind}))
        one(changed(COMMENT, run={"kind": kind}))
    one(AZURE)
    one(changed(COMMENT, run={"kind": "azure", "repository": "web"}))
