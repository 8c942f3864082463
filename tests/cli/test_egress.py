"""`egress`: what runs may reach, from which line; and what `show` tells of a run that went out."""

import pytest

from pidispatch.domain.egress.allowlist import EgressUse
from pidispatch.store.runs.egress import PostgresEgressUses
from tests.cli.test_runs import an_ended_run, name_of


@pytest.fixture
def listed(bare, tmp_path):
    """Write the allowlist of the test's home."""

    def write(text):
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        (home / "egress-allowlist.conf").write_text(text)

    return write


def test_without_a_file_nothing_is_let_through(command, bare):
    said = command("egress")

    assert said.code == 0
    assert said.out.startswith("nothing: there is no ")
    assert "@github" in said.out


def test_the_entries_are_listed_with_their_lines(command, listed):
    listed("# ours\nexample.com:8443\n@npm\n")

    said = command("egress")
    document = command("egress", "--json").document

    assert ["2", "example.com:8443", "8443"] in [line.split() for line in said.out.splitlines()]
    assert ["3", "registry.npmjs.org", "443", "80", "@npm"] in [
        line.split() for line in said.out.splitlines()
    ]
    assert (document["on"], document["found"], document["entries"][1]["preset"]) == (True, True, "npm")
    assert document["presets"]["pypi"]


def test_a_host_is_judged_by_its_name(command, listed):
    listed(".example.com\n")

    yes, no = command("egress", "check", "a.example.com"), command("egress", "check", "example.org:80")
    private = command("egress", "check", "10.0.0.1", "--json")

    assert (yes.code, yes.out) == (0, "a.example.com:443: allowed (listed, line 1: .example.com)\n")
    assert (no.code, no.out) == (1, "example.org:80: blocked (not-listed)\n")
    assert (private.code, private.document["reason"]) == (1, "private-address")


def test_what_is_no_host_and_what_is_no_list_is_refused(command, listed):
    assert command("egress", "check", "http://x/").code == 2
    listed("*\n")

    said = command("egress")

    assert said.code == 2
    assert "egress-allowlist.conf:1: " in said.err


def test_that_egress_is_off_is_told_with_its_reason(command, bare, monkeypatch):
    monkeypatch.setenv("PI_EGRESS", "0")
    assert command("egress").code == 2
    monkeypatch.setenv("PIDISPATCH_EGRESS_OFF_BECAUSE", "a lab")

    assert "because: a lab" in command("egress").out
    assert command("egress", "check", "anything.example:22").code == 0
    assert command("egress", "check", "127.0.0.1").code == 1


def test_a_list_is_judged_before_it_is_put_in_place(command, bare, tmp_path):
    (tmp_path / "egress-allowlist.conf").write_text("@github\nexample.com\n")
    (tmp_path / "other").write_text("https://example.com\n")

    good = command("check", "egress-allowlist.conf")
    bad = command("check", "other", "--as", "egress-allowlist")

    assert (good.code, good.out) == (0, "ok: egress-allowlist.conf: egress-allowlist, 10 hosts\n")
    assert bad.code == 2
    assert 'other:1: "https://example.com" has a scheme' in bad.err


def test_show_tells_where_a_run_went_and_where_it_was_not_let(pidispatch, database):
    run = an_ended_run(database)
    PostgresEgressUses(database).add(
        run,
        [
            EgressUse(run, "example.com", 443, True, "listed", 2, 1000, 20000, 5.0, 1.0),
            EgressUse(run, "*", 0, False, "other", 7, 0, 0, 5.0, 1.0),
        ],
    )
    name = name_of(database, run)

    lines = [line.split() for line in pidispatch("show", name).out.splitlines()]
    document = pidispatch("show", name, "--json").document

    assert any(
        line[:7] == ["example.com", "443", "allowed", "listed", "2", "1,000", "20,000"] for line in lines
    )
    assert any(line[:4] == ["*", "blocked", "other", "7"] for line in lines)
    assert [each["host"] for each in document["egress"]] == ["example.com", "*"]
