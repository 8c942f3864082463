"""The keys that are ours: ids, repositories, zones, missed instants, what happens meanwhile, priority."""

import pytest

from pidispatch.domain.triggers import Cron, Missed, WhileRunning
from tests.domain.files.triggers.builders import (
    CLOSE,
    COMMENT,
    CRON,
    ISSUE,
    LABEL,
    PULL,
    changed,
    one,
    parse,
    problems,
    refused,
)


@pytest.mark.parametrize("entry", [LABEL, COMMENT, PULL, CLOSE, ISSUE])
def test_every_entry_may_have_an_id_of_its_own(entry):
    found = one(changed(entry, id="web.fix-1"))

    assert (found.id, found.identity) == ("web.fix-1", "web.fix-1")
    assert one(changed(entry, id=None)).id is None


@pytest.mark.parametrize(
    ("written", "problem"),
    [("", "must be a text that is not empty"), (5, "must be a text"), ("a:b", "must not hold a colon"), ("a b", "must be 1 to 200 of"),
     ("a" * 201, "must be 1 to 200 of")],
)  # fmt: skip
def test_an_id_is_short_and_plain(written, problem):
    assert f": id {problem}" in refused(changed(LABEL, id=written))


def test_an_id_is_that_of_one_entry():
    twice = problems(changed(LABEL, id="a"), changed(PULL, id="a"))
    like_a_schedule = problems(CRON, changed(LABEL, id="nightly"))

    assert 'triggers[1] (id "a"): id is also that of triggers[0]' in twice[0]
    assert 'triggers[1] (id "nightly"): id is also that of triggers[0]' in like_a_schedule[0]


def test_a_schedule_may_repeat_its_id_beside_on():
    assert one(changed(CRON, id="nightly")).id == "nightly"
    assert "id must be the same as on.id" in refused(changed(CRON, id="other"))
    assert "id must be the same as on.id" in refused(changed(CRON, id=5))


@pytest.mark.parametrize("written", ["acme/web", ["acme/web"], ["acme/web", "group/sub/api"], None])
def test_events_may_be_of_named_repositories_alone(written):
    wanted = () if written is None else (written,) if isinstance(written, str) else tuple(written)

    assert one(changed(LABEL, on={"repo": written})).repos == wanted


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("", "must name each repository whole"), ("web", "must name each"), ("acme/*", "must name each"), ("github:acme/web", "must name each"),
        ("/acme/web", "must name each"), ([], "must be a repository as owner/name, or a list"), (5, "must be a repository"),
        (["acme/web", 5], "must be a repository"), (["acme/web", "acme/web"], "names a repository twice"), ({}, "must be a repository"),
    ],
)  # fmt: skip
def test_repositories_are_exact_names(written, problem):
    assert f"on.repo {problem}" in refused(changed(LABEL, on={"repo": written}))


def test_a_schedule_has_no_repository():
    assert "on.repo does not go with cron" in refused(changed(CRON, on={"repo": "acme/web"}))


@pytest.mark.parametrize("entry", [ISSUE, CLOSE, changed(ISSUE, on={"once": False})])
def test_a_number_of_any_repository_is_noted(entry):
    note = parse(entry).notes[0]

    assert "triggers[0]: on.number without on.repo counts in every repository of the forge" in note
    assert parse(changed(entry, on={"repo": "acme/web"})).notes == ()


def test_a_schedule_has_a_zone_and_says_what_becomes_of_missed_instants():
    found = one(changed(CRON, on={"tz": "europe/berlin", "missed": "all"})).on

    assert found == Cron("0 3 * * *", "Europe/Berlin", Missed.ALL)
    assert one(changed(CRON, on={"tz": None, "missed": None})).on == Cron("0 3 * * *", None, Missed.ONCE)


@pytest.mark.parametrize(
    ("on", "problem"),
    [
        ({"tz": "Berlin"}, "on.tz must be a zone of the IANA database"), ({"tz": "localtime"}, "on.tz must be a zone"),
        ({"tz": ""}, "on.tz must be a text"), ({"tz": "../x"}, "on.tz must be a zone"), ({"tz": 1}, "on.tz must be a text"),
        ({"missed": "twice"}, "on.missed must be one of skip, once, all"), ({"missed": ["all"]}, "on.missed must be one of"),
        ({"while_running": "wait"}, "on.while_running must be one of queue, skip, supersede, parallel"),
        ({"while_running": {}}, "on.while_running must be one of"),
    ],
)  # fmt: skip
def test_words_that_are_none_are_told_the_known_ones(on, problem):
    assert problem in refused(changed(CRON, on=on))


@pytest.mark.parametrize("key", ["tz", "missed"])
def test_a_clock_goes_with_a_schedule_alone(key):
    for entry, called in ((LABEL, "label"), (ISSUE, "issue")):
        assert f"on.{key} goes with cron alone, and this is a {called}" in refused(
            changed(entry, on={key: "UTC"})
        )


@pytest.mark.parametrize("written", list(WhileRunning))
@pytest.mark.parametrize("entry", [CRON, LABEL, COMMENT, PULL, ISSUE])
def test_what_happens_meanwhile_is_chosen_on_every_type(entry, written):
    assert one(changed(entry, on={"while_running": written})).while_running is written
    assert one(entry).while_running is WhileRunning.QUEUE


def test_the_identity_without_an_id_is_that_of_what_the_entry_is_for():
    plain = changed(ISSUE, on={"repo": "acme/web"})
    same = [
        changed(plain, run={"image": "x"}),
        changed(plain, on={"disarmed": {"at": "x"}}),
        changed(plain, run={"priority": 3}),
    ]
    other = [
        changed(plain, on={"number": 41}), changed(plain, on={"repo": "acme/api"}), changed(plain, run={"flow": "other"}),
        changed(plain, on={"type": "pull_request"}), ISSUE,
    ]  # fmt: skip

    identity = one(plain).identity
    assert {one(each).identity for each in same} == {identity}
    assert len({one(each).identity for each in other} | {identity}) == 6


@pytest.mark.parametrize("entry", [CRON, LABEL, COMMENT, PULL, ISSUE])
def test_every_entry_may_name_hosts_of_its_own(entry):
    assert one(changed(entry, run={"egress": [".example.com:8443", "@npm"]})).work.ask.egress_hosts == (
        ".example.com:8443",
        "@npm",
    )
    assert one(entry).work.ask.egress_hosts is None


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("example.com", "run.egress must be a list of 1 to 64 hosts"),
        ([], "run.egress must be a list of 1 to 64 hosts"),
        (["a.example"] * 65, "run.egress must be a list of 1 to 64 hosts"),
        ([5], "run.egress[0] must be a text"),
        (["a.example", "*.example"], "run.egress[1] has a star"),
        (["10.0.0.1"], "run.egress[0] is no public address"),
        (["@nothing"], "run.egress[0] is no preset"),
    ],
)
def test_hosts_of_an_entry_are_written_as_in_the_allowlist(written, problem):
    assert problem in refused(changed(CRON, run={"egress": written}))


@pytest.mark.parametrize("key", ["Egress", "egres", "egress_hosts", "egressAllowlist"])
def test_a_key_that_was_meant_to_be_egress_is_refused(key):
    assert "run.egress is, and it must be spelled" in refused(changed(CRON, run={key: ["a.example"]}))
