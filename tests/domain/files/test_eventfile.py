"""An event that somebody wrote down: read whole, or refused with file, line, field and way out."""

import contextlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pidispatch.domain.forges.github import GITHUB
from pidispatch.domain.triggers.event import Event, Item, Route
from pidispatch.domain.triggers.eventfile import KEYS, parse_event
from pidispatch.errors import ConfigurationRefused

LABELLED = {"forge": "github", "route": "issue", "action": "labeled"}
SAID = {"forge": "gitlab", "route": "comment", "action": "create"}
REVIEWED = {"forge": "github", "route": "pull_request", "action": "review_submitted"}


def parse(fields, **more):
    return parse_event(json.dumps({**fields, **more}).encode(), "event.json")


def refused(fields, **more):
    with pytest.raises(ConfigurationRefused) as error:
        parse(fields, **more)
    return error.value.problems


def test_an_event_is_read_whole():
    found = parse(
        {
            "forge": "github", "delivery": "d-1", "event": "pull_request_review", "route": "pull_request",
            "action": "review_submitted", "item": "pull_request", "repo": "acme/web", "number": 7, "labels": ["a", "b"],
            "added": ["b"], "reviewState": "approved", "reviewBody": "fine", "sender": 42, "allowed": True,
            "title": "Größe", "body": "x",
        }
    )  # fmt: skip

    assert found == Event(
        GITHUB, "d-1", "pull_request_review", Route.PULL_REQUEST, "review_submitted", Item.PULL_REQUEST, "acme/web", 7,
        labels=("a", "b"), added=("b",), review_state="approved", review_body=b"fine", sender_id="42", allowed=True,
        title="Größe".encode(), body=b"x",
    )  # fmt: skip


@pytest.mark.parametrize("more", [{}, {key: None for key in KEYS if key not in LABELLED}])
def test_what_is_left_out_or_null_is_not_told(more):
    found = parse(LABELLED, **more)

    assert found == Event(GITHUB, "test", "issue", Route.ISSUE, "labeled", Item.ISSUE, repo=None, number=None)


def test_the_route_tells_the_item_but_of_a_comment():
    assert parse(REVIEWED).item is Item.PULL_REQUEST
    assert parse(SAID).item is Item.ISSUE
    assert parse(SAID, item="pull_request").item is Item.PULL_REQUEST
    assert parse(LABELLED, added=[]).added == ()


def test_a_comment_keeps_its_text_and_azure_its_project():
    assert parse(SAID, comment="@pi \0 go").comment == b"@pi \0 go"
    azure = parse({"forge": "azure", "route": "issue", "action": "created"}, project="acme", sender="0f-1")
    assert (azure.project, azure.sender_id) == ("acme", "0f-1")


@pytest.mark.parametrize(
    ("fields", "more", "problem"),
    [
        (LABELLED, {"forge": "hub"}, "forge must be one of github, gitlab, forgejo, azure"),
        (LABELLED, {"forge": "local"}, "forge must be one of github, gitlab, forgejo, azure"),
        (LABELLED, {"route": "issues"}, "route must be one of issue, comment, pull_request"),
        (LABELLED, {"action": " "}, "action must be a text of 1 to 512 characters, as the forge writes it"),
        (LABELLED, {"action": "x" * 513}, "action must be a text of 1 to 512"),
        (LABELLED, {"delivery": ""}, "delivery must be a text of 1 to 512"),
        (LABELLED, {"event": 5}, "event must be a text of 1 to 512"),
        (LABELLED, {"item": "merge_request"}, "item must be one of issue, pull_request"),
        (LABELLED, {"item": "pull_request"}, "item must be issue where route is issue; leave it out"),
        (LABELLED, {"repo": "github:acme/web"}, "repo must be a repository as owner/name, without the forge"),
        (LABELLED, {"repo": "web"}, "repo must be a repository as owner/name"),
        (LABELLED, {"number": "7"}, "number must be an integer from 1 to 2147483647, written without quotes"),
        (LABELLED, {"number": 0}, "number must be an integer from 1"),
        (LABELLED, {"number": 2**31}, "number must be an integer from 1"),
        (LABELLED, {"labels": "pi"}, 'labels must be a list of labels, each a text that is not empty, such as ["bug"]'),
        (LABELLED, {"added": ["a", ""]}, "added must be a list of labels"),
        (LABELLED, {"labels": ["a"] * 257}, "labels must hold at most 256 labels"),
        (LABELLED, {"labels": ["a" * 513]}, "labels must hold at most 256 labels of at most 512 characters"),
        (LABELLED, {"comment": "hi"}, "comment goes with route comment alone; leave it out, or mend route"),
        (SAID, {"reviewBody": "hi"}, "reviewBody goes with route pull_request alone"),
        (SAID, {"comment": ["hi"]}, "comment must be a text of at most 256 KiB"),
        (REVIEWED, {"reviewState": "APPROVED"}, "reviewState must be one of approved, changes_requested, commented"),
        (LABELLED, {"sender": 0}, "sender must be a text of 1 to 512"),
        (LABELLED, {"sender": True}, "sender must be a text of 1 to 512"),
        (LABELLED, {"allowed": "yes"}, "allowed must be true or false, without quotes"),
        (LABELLED, {"title": 5}, "title must be a text of at most 256 KiB"),
        (LABELLED, {"body": "é" * 131_073}, "body must be a text of at most 256 KiB"),
        (LABELLED, {"project": "acme"}, "project goes with azure alone; name the repository of github in repo"),
        (LABELLED, {"repository": "acme/web"}, '"repository" is unknown here; known are forge, delivery, event, route,'),
    ],
)  # fmt: skip
def test_a_field_that_is_wrong_is_refused_with_what_it_takes(fields, more, problem):
    (told,) = refused(fields, **more)

    assert told.startswith(f"event.json:1: {problem}")


def test_what_must_be_there_is_named():
    assert refused({}) == (
        "event.json:1: forge is missing: it must be one of github, gitlab, forgejo, azure",
        "event.json:1: route is missing: it must be one of issue, comment, pull_request",
        "event.json:1: action is missing: it must be a text of 1 to 512 characters, as the forge writes it",
    )


def test_a_problem_names_its_line():
    content = b'{\n "forge": "github",\n "route": "issue",\n "action": "labeled",\n "number": "7"\n}'

    with pytest.raises(ConfigurationRefused) as error:
        parse_event(content, "event.json")

    assert error.value.problems[0].startswith("event.json:5: number must be")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"null", b"{", b'{"forge": 1, "forge": 2}', b"\xff", b" " * 2**21]
)
def test_what_is_no_event_is_refused(content):
    with pytest.raises(ConfigurationRefused, match=r"^event\.json"):
        parse_event(content, "event.json")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), values, max_size=8))
@settings(max_examples=200, deadline=None)
def test_no_content_makes_it_raise_anything_else(fields):
    with contextlib.suppress(ConfigurationRefused):
        parse(LABELLED, **fields)
