"""What matches what, forge by forge, and at which gate the rest stops."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.forges.azure import AZURE
from pidispatch.domain.forges.forgejo import FORGEJO
from pidispatch.domain.forges.github import GITHUB
from pidispatch.domain.forges.gitlab import GITLAB
from pidispatch.domain.runs.ask import Ask
from pidispatch.domain.triggers.conditions import Phrases
from pidispatch.domain.triggers.event import MOST_LABELS, MOST_TEXT, Item, Route
from pidispatch.domain.triggers.matching import match, verdicts
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    IssueEvent,
    LabelEvent,
    Labels,
    PullRequestEvent,
    Trigger,
    Work,
)
from pidispatch.domain.triggers.verdicts import Dropped, Match, MatchGate, Stopped
from tests.domain.happening import (
    COMMENT,
    ISSUE,
    MARK,
    PULL,
    a_file,
    an_entry,
    an_event,
    labels,
    on_close,
    on_comment,
    on_label,
    on_pull,
)
from tests.support.patience import slowness

PI = ("pi",)
FORGES = (GITHUB, GITLAB, FORGEJO, AZURE)
LABELLED = {GITHUB: "labeled", GITLAB: "update", FORGEJO: "label_updated", AZURE: "updated"}
SAID = {GITHUB: "created", GITLAB: "create", FORGEJO: "created", AZURE: "commented"}


def outcome(event, *entries):
    """`(type, what matched)`, or the word of the drop."""
    found = match(event, a_file(*entries))
    return (found.type, found.by) if isinstance(found, Match) else found.reason


@pytest.mark.parametrize("forge", FORGES)
@pytest.mark.parametrize(
    ("wanted", "there", "expected"),
    [
        (labels(["pi"]), ["pi"], ("label", "pi")),
        (labels(["pi", "go"]), ["x", "go"], ("label", "go")),
        (labels(["pi", "go"]), ["go", "pi"], ("label", "pi")),
        (labels(["pi"]), ["Pi"], "no-allowlisted-label"),
        (labels(["pi"]), ["pip"], "no-allowlisted-label"),
        (labels([], ["a", "b"]), ["b", "a", "c"], ("label", "a")),
        (labels([], ["a", "b"]), ["a"], "no-allowlisted-label"),
        (labels(["pi"], ["a"]), ["pi"], "no-allowlisted-label"),
        (labels(["pi"], ["a"]), ["pi", "a"], ("label", "pi")),
        (labels(["pi"], [], ["stop"]), ["pi", "stop"], "no-allowlisted-label"),
        (labels(["pi"], [], ["stop"]), ["pi"], ("label", "pi")),
    ],
)
def test_the_predicate_is_the_same_on_every_forge(forge, wanted, there, expected):
    event = an_event(forge, ISSUE, LABELLED[forge], labels=tuple(there), added=tuple(there))

    assert outcome(event, an_entry(forge, type(on_label())(wanted))) == expected


@pytest.mark.parametrize(
    ("forge", "now", "added", "expected"),
    [
        (GITHUB, PI, ("other",), ("label", "pi")),  # all labels of the item count, whichever was put on
        (FORGEJO, PI, ("other",), ("label", "pi")),
        (FORGEJO, PI, None, ("label", "pi")),  # Forgejo does not tell what changed
        (FORGEJO, PI, (), "no-label-change"),  # where it is known that nothing was added, nothing fires
        (GITHUB, PI, (), "no-label-change"),
        (GITLAB, PI, ("other",), "no-allowlisted-label"),  # only what this event added counts
        (AZURE, PI, ("other",), "no-allowlisted-label"),
        (GITLAB, PI, PI, ("label", "pi")),
        (AZURE, PI, PI, ("label", "pi")),
        (GITLAB, PI, (), "no-label-change"),
        (GITLAB, PI, None, "no-label-change"),
        (AZURE, PI, (), "no-label-change"),
    ],
)
def test_github_and_forgejo_test_all_labels_gitlab_and_azure_those_added(forge, now, added, expected):
    event = an_event(forge, ISSUE, LABELLED[forge], labels=now, added=added)

    assert outcome(event, an_entry(forge, on_label("pi"))) == expected


@pytest.mark.parametrize(
    ("forge", "action", "expected"),
    [
        (GITHUB, "opened", ("label", "pi")),
        (GITHUB, "labeled", ("label", "pi")),
        (GITHUB, "reopened", ("label", "pi")),
        (GITHUB, "unlabeled", "action-not-actionable"),
        (GITHUB, "edited", "action-not-actionable"),
        (FORGEJO, "opened", ("label", "pi")),
        (FORGEJO, "label_updated", ("label", "pi")),
        (FORGEJO, "label_cleared", "action-not-actionable"),
        (GITLAB, "open", ("label", "pi")),
        (GITLAB, "close", ("label", "pi")),
        (AZURE, "created", ("label", "pi")),
        (AZURE, "deleted", "action-not-actionable"),
    ],
)
def test_the_actions_that_a_label_entry_hears(forge, action, expected):
    event = an_event(forge, ISSUE, action, labels=PI, added=PI)

    assert outcome(event, an_entry(forge, on_label("pi"))) == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("labeled", ("label", "pi")),  # who may put a label on is trusted
        ("reopened", ("label", "pi")),
        ("opened", "author-not-allowed"),  # a form of the repository may have put it on for a stranger
    ],
)
def test_on_github_a_label_is_the_approval_unless_the_issue_was_opened_with_it(action, expected):
    event = an_event(GITHUB, ISSUE, action, labels=PI, allowed=False)

    assert outcome(event, an_entry(GITHUB, on_label("pi"))) == expected


@pytest.mark.parametrize("forge", [GITLAB, FORGEJO, AZURE])
def test_elsewhere_a_label_of_somebody_without_rights_starts_nothing(forge):
    event = an_event(forge, ISSUE, LABELLED[forge], labels=PI, added=PI, allowed=False)

    assert outcome(event, an_entry(forge, on_label("pi"))) == "author-not-allowed"


@pytest.mark.parametrize("forge", FORGES)
@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        (b"please @pi do", ("comment", "@pi")),
        (b"x@pi", ("comment", "@pi")),
        (b"@PI", "no-trigger-phrase"),
        (b"@pip install", "no-trigger-phrase"),
        (b"@pi-bot hello", "no-trigger-phrase"),
        (b"@pi, please", ("comment", "@pi")),
        (b"\xe8\xaf\xb7@pi\xe4\xbf\xae", ("comment", "@pi")),  # no spaces in that language
        (b"", "no-trigger-phrase"),
        (None, "no-trigger-phrase"),
        (b"\xff\xfe@pi\x00", ("comment", "@pi")),
    ],
)
def test_the_phrase_is_found_in_a_comment(forge, comment, expected):
    event = an_event(forge, COMMENT, SAID[forge], comment=comment)

    assert outcome(event, an_entry(forge, on_comment())) == expected


@pytest.mark.parametrize(
    ("comment", "flow"),
    [
        (b"@pi review", "review"),
        (b"@pi\n\treview now", "review"),
        (b"@pi review.", "review"),
        (b"(@pi review)", "review"),
        (b"@pi review!", "review"),
        (b"<div>@pi review</div>", "review"),
        (b"@pi&nbsp;review<br>", "review"),
        (b"@pi reviewed", "fix"),
        (b"@pi review.md", "fix"),
        (b"@pi Review", "fix"),
        (b"@pi unknown", "fix"),
        (b"@pi", "fix"),
        (b"@pi, review", "fix"),
        (b"@pi unknown @pi review", "fix"),  # the first phrase with a word behind it decides
        (b"@pi elsewhere", "elsewhere"),  # a flow that another forge's entry has
        (b"@pi nightly", "fix"),  # a schedule's flow cannot be summoned
        (b"@pi spent", "fix"),  # nor one of an entry that is used up
    ],
)
def test_a_comment_picks_a_flow_that_some_entry_has(comment, flow):
    file = a_file(
        an_entry(GITHUB, on_comment()),
        an_entry(GITHUB, on_label("x"), flow="review"),
        an_entry(GITLAB, on_label("x"), flow="elsewhere"),
        an_entry(GITHUB, on_close(GITHUB, 1, once=True), flow="spent", disarmed=MARK),
        Trigger(4, 1, Cron("0 0 * * *"), Work("local", Ask(flow="nightly")), id="n"),
    )

    found = match(an_event(GITHUB, COMMENT, "created", comment=comment), file)

    assert (found.flow, found.command, found.lane) == (flow, None, flow)


def test_a_comment_picks_no_flow_for_a_command():
    file = a_file(
        an_entry(GITHUB, on_comment(), command="triage now"),
        an_entry(GITHUB, on_label("x"), flow="review"),
    )

    found = match(an_event(GITHUB, COMMENT, "created", comment=b"@pi review"), file)

    assert (found.flow, found.command, found.lane) == (None, "triage now", "cmd:triage now")


def test_a_comment_on_a_pull_request_is_about_the_pull_request():
    event = an_event(GITLAB, COMMENT, "create", comment=b"@pi", item=Item.PULL_REQUEST)

    assert match(event, a_file(an_entry(GITLAB, on_comment()))).subject().item == "!7"


@pytest.mark.parametrize(
    ("forge", "on", "more", "expected"),
    [
        (GITHUB, on_pull("opened"), {}, ("pull_request", "opened")),
        (GITHUB, on_pull("synchronize"), {"action": "opened"}, "no-matching-pr-trigger"),
        (GITHUB, on_pull("opened", labels=labels(["pi"])), {}, "no-matching-pr-trigger"),
        (GITHUB, on_pull("opened", labels=labels(["pi"])), {"labels": PI}, ("pull_request", "opened")),
        (GITHUB, on_pull("opened", labels=labels([], [], ["wip"])), {"labels": ("wip",)}, "no-matching-pr-trigger"),
        (GITHUB, on_pull("opened", labels=labels([], [], ["wip"])), {"labels": PI}, ("pull_request", "opened")),
        (GITHUB, on_pull("opened"), {"allowed": False}, "pr-author-not-allowed"),
        (GITHUB, on_pull("opened"), {"allowed": None}, "authority-not-asked"),
        (GITHUB, on_pull("labeled", labels=labels(["pi"])), {"labels": PI, "allowed": False}, ("pull_request", "labeled")),
        (GITHUB, on_pull("closed"), {}, ("pull_request", "closed")),
        (GITHUB, on_pull("closed", number=8), {}, "close-number-not-matched"),
        (GITHUB, on_pull("closed", number=7), {}, ("pull_request", "closed")),
        (GITHUB, on_pull("closed", number=7), {"allowed": False}, "closer-not-allowed"),
        (GITLAB, on_pull("close"), {}, ("pull_request", "close")),
        (GITLAB, on_pull("close"), {"action": "merge"}, "no-matching-close-trigger"),
        (GITLAB, on_pull("approved"), {}, ("pull_request", "approved")),
        (GITLAB, on_pull("update", labels=labels(["pi"])), {"added": PI}, ("label", "pi")),
        (GITLAB, on_pull("update", labels=labels(["pi"])), {"labels": PI, "added": ()}, "no-label-change"),
        (GITLAB, on_pull("update", labels=labels([], [], ["wip"])), {"labels": ("wip",)}, "no-matching-pr-trigger"),
        (GITLAB, on_pull("update", labels=labels([], [], ["wip"])), {"labels": PI}, ("pull_request", "update")),
        (FORGEJO, on_pull("label_updated", labels=labels(["pi"])), {"labels": PI}, ("pull_request", "label_updated")),
        (FORGEJO, on_pull("synchronized"), {}, ("pull_request", "synchronized")),
        (FORGEJO, on_pull("closed"), {}, ("pull_request", "closed")),
        (AZURE, on_pull("created"), {}, ("pull_request", "created")),
        (AZURE, on_pull("updated"), {"allowed": False}, "pr-author-not-allowed"),
    ],
)  # fmt: skip
def test_pull_requests(forge, on, more, expected):
    event = an_event(forge, PULL, **{"action": on.actions[0], **more})

    assert outcome(event, an_entry(forge, on)) == expected


@pytest.mark.parametrize(
    ("state", "body", "wanted", "allowed", "expected"),
    [
        ("approved", b"", (), True, ("pull_request", "review_submitted")),
        ("changes_requested", None, (), True, ("pull_request", "review_submitted")),
        ("commented", b"", (), True, "no-review-body"),
        ("commented", b" \n", (), True, "no-review-body"),
        ("commented", b"look", (), True, ("pull_request", "review_submitted")),
        ("approved", b"", ("changes_requested",), True, "review-state-not-matched"),
        ("changes_requested", b"", ("changes_requested",), True, ("pull_request", "review_submitted")),
        ("approved", b"", (), False, "review-author-not-allowed"),
    ],
)
def test_reviews(state, body, wanted, allowed, expected):
    entry = an_entry(GITHUB, on_pull("review_submitted", review_states=wanted))
    event = an_event(GITHUB, PULL, "review_submitted", review_state=state, review_body=body, allowed=allowed)

    assert outcome(event, entry) == expected


@pytest.mark.parametrize("forge", [GITHUB, GITLAB, FORGEJO])
@pytest.mark.parametrize(
    ("number", "allowed", "expected"),
    [
        (None, True, "issue"),
        (7, True, "issue"),
        (8, True, "close-number-not-matched"),
        (7, False, "closer-not-allowed"),
        (7, None, "authority-not-asked"),  # the number is looked at first: only then a forge is asked
        (8, None, "close-number-not-matched"),
    ],
)
def test_closed_issues(forge, number, allowed, expected):
    on = on_close(forge, number)
    event = an_event(forge, ISSUE, on.actions[0], allowed=allowed)

    found = outcome(event, an_entry(forge, on))

    assert found == ((expected, on.actions[0]) if expected == "issue" else expected)


def test_what_a_close_starts_is_a_subject_of_its_own():
    entry = an_entry(GITHUB, on_close(GITHUB, 7))

    found = match(an_event(GITHUB, ISSUE, "closed"), a_file(entry))

    assert (found.closed, found.subject().lane) == (True, "closed:fix")


def test_a_close_on_gitlab_that_moved_labels_goes_to_the_close_first_and_starts_one_run():
    label, close = an_entry(GITLAB, on_label("pi")), an_entry(GITLAB, on_close(GITLAB, 7), index=1)
    event = an_event(GITLAB, ISSUE, "close", labels=PI, added=PI)

    assert outcome(event, label, close) == ("issue", "close")
    assert outcome(replace(event, number=8), label, close) == ("label", "pi")
    assert outcome(replace(event, allowed=False), label, close) == "closer-not-allowed"


@pytest.mark.parametrize(
    ("repos", "repo", "matches"),
    [
        ((), "acme/web", True),
        (("acme/web",), "acme/web", True),
        (("acme/api", "acme/web"), "acme/web", True),
        (("Acme/Web",), "acme/web", True),  # forges hold two spellings for one repository
        (("acme/api",), "acme/web", False),
        (("acme/web",), "acme/web-2", False),
        (("acme",), "acme/web", False),
        (("web",), "acme/web", False),
    ],
)
def test_an_entry_may_name_its_repositories(repos, repo, matches):
    event = an_event(GITHUB, ISSUE, "labeled", labels=PI, repo=repo)

    found = outcome(event, an_entry(GITHUB, on_label("pi"), repos=repos))

    assert found == (("label", "pi") if matches else "other-repository")


def test_a_work_item_of_azure_belongs_to_the_repository_that_the_entry_names():
    event = an_event(AZURE, ISSUE, "updated", added=PI, repo=None, project="Shop")

    named = match(event, a_file(an_entry(AZURE, on_label("pi"), repository="web")))
    assert named.repo == "Shop/web"
    assert outcome(event, an_entry(AZURE, on_label("pi"))) == "no-repository"
    assert outcome(event, an_entry(AZURE, on_label("pi"), repository="web", repos=("shop/api",))) == (
        "other-repository"
    )


def test_an_entry_that_is_used_up_matches_nothing_and_another_takes_its_place():
    event = an_event(GITHUB, ISSUE, "closed")
    spent = an_entry(GITHUB, on_close(GITHUB, 7, once=True), disarmed=MARK)

    assert match(event, a_file(spent)) == Dropped(
        "unhandled-event", Stopped(spent, MatchGate.ARMED, "disarmed")
    )
    other = an_entry(GITHUB, on_close(GITHUB), index=1)
    assert match(event, a_file(spent, other)).trigger == other


def test_a_match_of_a_one_shot_carries_its_key_wherever_the_entry_stands():
    first = an_entry(GITHUB, on_close(GITHUB, 7, once=True))
    moved = replace(first, index=5)
    event = an_event(GITHUB, ISSUE, "closed")

    assert match(event, a_file(first)).one_shot == match(event, a_file(moved)).one_shot == first.identity
    assert match(event, a_file(an_entry(GITHUB, on_close(GITHUB, 7)))).one_shot is None


def test_two_forges_with_the_same_number_are_two_one_shots():
    keys = {an_entry(forge, on_close(forge, 7, once=True)).identity for forge in (GITHUB, GITLAB, FORGEJO)}

    assert len(keys) == 3


def test_the_first_entry_that_matches_wins_and_each_tells_its_gate():
    entries = [
        an_entry(GITLAB, on_label("pi")),
        an_entry(GITHUB, on_comment()),
        an_entry(GITHUB, on_label("pi"), repos=("acme/api",)),
        an_entry(GITHUB, on_label("go")),
        an_entry(GITHUB, on_label("pi"), flow="first"),
        an_entry(GITHUB, on_label("pi"), flow="second"),
        Trigger(6, 1, Cron("0 0 * * *"), Work("local", Ask(flow="n")), id="n"),
    ]
    event = an_event(GITHUB, ISSUE, "labeled", labels=PI)

    told = verdicts(event, a_file(*entries))

    assert [each.gate.name if isinstance(each, Stopped) else each.flow for each in told] == [
        "FORGE", "EVENT", "REPOSITORY", "CONTENT", "first", "second", "FORGE",
    ]  # fmt: skip
    assert match(event, a_file(*entries)).flow == "first"
    assert match(replace(event, labels=("x",)), a_file(*entries)) == Dropped("no-allowlisted-label", told[3])


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"sender_id": None}, "missing-sender-id"),
        ({"by_self": True}, "self"),
        ({"number": None}, "missing-issue-number"),
        ({"number": 0}, "missing-issue-number"),
        ({"number": None, "item": Item.PULL_REQUEST}, "missing-pull-request"),
        ({"delivery_id": ""}, "unhandled-event"),
        ({"repo": "x" * 600}, "unhandled-event"),
        ({"route": PULL}, "unhandled-event"),
    ],
)
def test_some_events_match_nothing_whatever_the_file_says(more, reason):
    event = replace(an_event(GITHUB, ISSUE, "labeled", labels=PI), **more)

    assert match(event, a_file(an_entry(GITHUB, on_label("pi")))).reason == reason


def test_an_event_is_bounded_and_shows_no_text_of_others():
    event = an_event(
        GITHUB, COMMENT, "created",
        body=b"s3cret" * MOST_TEXT, comment=b"s3cret" * MOST_TEXT, title=b"s3cret",
        labels=("pi", "x" * 1000, *(str(number) for number in range(1000))),
    )  # fmt: skip

    assert len(event.body) == len(event.comment) == MOST_TEXT
    assert len(event.labels) == MOST_LABELS
    assert "x" * 1000 not in event.labels
    assert "s3cret" not in repr(event)


@given(st.binary(max_size=200), st.text(min_size=1, max_size=8), st.sampled_from(FORGES))
def test_no_comment_and_no_phrase_breaks_the_match(comment, phrase, forge):
    event = an_event(forge, COMMENT, SAID[forge], comment=comment)

    assert match(event, a_file(an_entry(forge, on_comment(phrase)))) is not None


def test_a_comment_made_to_be_slow_is_not():
    comment = b"@pi " * 20_000 + b" " * 60_000 + b"a" * 60_000
    event = an_event(GITHUB, COMMENT, "created", comment=comment)
    began = time.monotonic()

    match(event, a_file(an_entry(GITHUB, on_comment()), an_entry(GITHUB, on_comment("@no"))))

    assert time.monotonic() - began < slowness()


WORDS = ("pi", "do", "stop", "@pi", "@pi-do", "x", "@pi-do-it", "")
REPOS = ("acme/web", "Acme/Web", "acme/api")
some_labels = st.lists(st.sampled_from(WORDS[:3]), max_size=2).map(tuple)
wanted_labels = st.builds(Labels, some_labels, some_labels, some_labels)
numbers = st.sampled_from([None, 6, 7])
ACTIONS = ("opened", "open", "closed", "close", "labeled", "label_updated", "created", "create", "updated")
some_actions = st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=3).map(tuple)
ons = st.one_of(
    wanted_labels.map(LabelEvent),
    st.sampled_from(WORDS[3:7]).map(CommentEvent),
    st.builds(PullRequestEvent, some_actions, wanted_labels, number=numbers),
    st.builds(IssueEvent, some_actions, numbers),
    st.just(Cron("0 0 * * *")),
)
entries = st.builds(
    Trigger,
    index=st.just(0),
    line=st.just(1),
    on=ons,
    work=st.builds(
        Work,
        st.sampled_from(["github", "gitlab", "forgejo", "azure", "local"]),
        st.builds(Ask, flow=st.sampled_from(["fix", "tidy"])),
        repository=st.sampled_from([None, "web"]),
    ),
    repos=st.lists(st.sampled_from(REPOS), max_size=2).map(tuple),
    disarmed=st.sampled_from([None, None, MARK]),
)
happenings = st.builds(
    an_event,
    st.sampled_from(FORGES),
    st.sampled_from(Route),
    st.sampled_from(ACTIONS),
    labels=some_labels,
    added=st.none() | some_labels,
    comment=st.lists(st.sampled_from(WORDS), max_size=4).map(lambda said: " ".join(said).encode()),
    repo=st.sampled_from(["acme/web", "acme/api", None]),
    project=st.sampled_from([None, "acme"]),
    number=st.sampled_from([6, 7]),
    allowed=st.sampled_from([None, True, False]),
)


@given(st.lists(entries, max_size=12), happenings)
def test_the_index_finds_what_asking_each_entry_finds(listed, event):
    file = a_file(*listed)
    own = [each for each in verdicts(event, file) if each.trigger.work.kind == event.forge.name]
    matched = next((each for each in own if isinstance(each, Match)), None)
    stopped = [each for each in own if isinstance(each, Stopped)]
    expected = matched or max(stopped, key=lambda each: each.gate, default=None)

    found = match(event, file)

    assert (found if isinstance(found, Match) else found.nearest) == expected


@given(
    st.lists(st.text("@pi-é ", min_size=1, max_size=7), max_size=80).map(frozenset),
    st.text("@pi-é ", max_size=300),
)
def test_phrases_are_found_as_by_a_search_for_each(phrases, text):
    assert Phrases(phrases).said(text) == {phrase for phrase in phrases if phrase in text}
