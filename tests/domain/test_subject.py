"""What is one subject and what is two, and what one more request for it leads to."""

import pytest

from pidispatch.domain.forges.azure import AZURE
from pidispatch.domain.forges.forgejo import FORGEJO
from pidispatch.domain.forges.github import GITHUB
from pidispatch.domain.forges.gitlab import GITLAB
from pidispatch.domain.triggers.arrival import ArrivalStep, Arrived, Became, There, decide
from pidispatch.domain.triggers.event import Item
from pidispatch.domain.triggers.subject import RunSubject, folder_subject, forge_subject
from pidispatch.domain.triggers.trigger import WhileRunning

QUEUE, SKIP, SUPERSEDE, PARALLEL = WhileRunning
WAITS = There(2, "two", waits=True)
GOES = There(1, "one", waits=False)
STOPS = There(1, "one", waits=False, stops=True)


def pull(forge, number=5):
    return forge_subject(forge, "acme/web", number, Item.PULL_REQUEST, "fix")


def issue(forge, number=5, **more):
    return forge_subject(forge, "acme/web", number, Item.ISSUE, "fix", **more)


@pytest.mark.parametrize("forge", [GITHUB, FORGEJO])
def test_where_issues_and_pull_requests_share_their_numbers_they_are_one(forge):
    assert pull(forge) == issue(forge)


@pytest.mark.parametrize("forge", [GITLAB, AZURE])
def test_where_they_are_counted_apart_they_are_two(forge):
    assert pull(forge).key != issue(forge).key


def test_forge_number_close_and_lane_set_subjects_apart():
    every = [
        issue(GITHUB),
        issue(FORGEJO),
        issue(GITHUB, 6),
        issue(GITHUB, closed=True),
        forge_subject(GITHUB, "acme/web", 5, Item.ISSUE, "cmd:fix"),
        forge_subject(GITHUB, "acme/api", 5, Item.ISSUE, "fix"),
        RunSubject("github:acme/web#5", "", "fix"),
    ]

    assert len({each.key for each in every}) == len(every)


def test_two_spellings_of_a_repository_are_one():
    assert forge_subject(GITHUB, "Acme/Web", 5, Item.ISSUE, "fix") == issue(GITHUB)


def test_a_folder_has_a_subject_for_each_task():
    assert folder_subject("folder:1", "fix", b"a") == folder_subject("folder:1", "fix", b"a")
    assert folder_subject("folder:1", "fix", b"a").key != folder_subject("folder:1", "fix", b"\xff").key


@pytest.mark.parametrize(
    ("policy", "live", "expected"),
    [
        (QUEUE, (), ArrivalStep(Became.STARTED)),
        (QUEUE, (GOES,), ArrivalStep(Became.QUEUED, GOES)),
        (QUEUE, (WAITS,), ArrivalStep(Became.COALESCED, WAITS)),
        (QUEUE, (GOES, WAITS), ArrivalStep(Became.COALESCED, WAITS)),
        (SKIP, (), ArrivalStep(Became.STARTED)),
        (SKIP, (GOES,), ArrivalStep(Became.SKIPPED, GOES)),
        (SKIP, (WAITS,), ArrivalStep(Became.SKIPPED, WAITS)),
        (SKIP, (GOES, WAITS), ArrivalStep(Became.SKIPPED, GOES)),
        (SUPERSEDE, (), ArrivalStep(Became.STARTED)),
        (SUPERSEDE, (GOES,), ArrivalStep(Became.SUPERSEDING, GOES)),
        (SUPERSEDE, (WAITS,), ArrivalStep(Became.COALESCED, WAITS)),
        (SUPERSEDE, (GOES, WAITS), ArrivalStep(Became.SUPERSEDING, GOES, joins=WAITS)),
        (SUPERSEDE, (STOPS,), ArrivalStep(Became.QUEUED, STOPS)),
        (SUPERSEDE, (STOPS, WAITS), ArrivalStep(Became.COALESCED, WAITS)),
        (PARALLEL, (), ArrivalStep(Became.STARTED)),
        (PARALLEL, (GOES, WAITS), ArrivalStep(Became.STARTED)),
    ],
)
def test_one_more_request_for_a_subject(policy, live, expected):
    assert decide(policy, live, None) == expected


@pytest.mark.parametrize("policy", WhileRunning)
def test_what_another_source_has_told_is_not_asked_for_again(policy):
    assert decide(policy, (GOES,), GOES) == ArrivalStep(Became.COALESCED, GOES)


def test_every_answer_can_be_read():
    said = {str(Arrived(became, 1, "one", "old")) for became in Became}

    assert said == {
        "started one",
        "coalesced into one",
        "queued one behind old",
        "skipped: one is there",
        "queued one, which supersedes old",
        "a duplicate: one",
        "dropped",
    }
    assert str(Arrived(Became.DUPLICATE)) == "a duplicate"
