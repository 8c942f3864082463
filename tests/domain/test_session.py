"""Whether a session is one, and whether a later run goes on with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.runs.session import KeptSession, Staged, problem_of, stage

HEADER = b'{"type":"session","version":3,"id":"x","cwd":"/workspace"}\n'


def test_the_same_pi_goes_on_with_what_it_wrote():
    staged = stage(KeptSession(HEADER, "1.6.0"), "1.6.0")

    assert staged == Staged(HEADER, "resumed")
    assert staged.resumed


@pytest.mark.parametrize(
    ("kept", "version", "reason"),
    [
        (None, "1.6.0", "absent"),
        (KeptSession(HEADER, "1.5.0"), "1.6.0", "pi-version-changed"),
        (KeptSession(HEADER, None), "1.6.0", "no-pi-version"),
        (KeptSession(HEADER, "1.6.0"), None, "no-pi-version"),
        (KeptSession(HEADER, None), None, "no-pi-version"),
    ],
)
def test_else_the_box_begins_afresh_and_the_record_says_why(kept, version, reason):
    staged = stage(kept, version)

    assert (staged.content, staged.reason, staged.resumed) == (b"", reason, False)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (HEADER, None),
        (HEADER + b'{"type":"message"}\n\n{"type":"message"}', None),
        (HEADER + b'{"type":"message"}\nnot json\n', "unparseable"),
        (HEADER + b'{"type":"mess', "unparseable"),
        (HEADER + b'{"type":"\xff"}\n', "unparseable"),
        (HEADER + b"[]\n", "unparseable"),
        (HEADER + b"[" * 100_000, "unparseable"),
        (b"\n\n", "absent"),
        (b"", "absent"),
        (b"\n" + HEADER, "unparseable"),
        (b'{"type":"session"}\n', "unparseable"),
        (HEADER.replace(b"/workspace", b"/etc"), "unparseable"),
        (HEADER.replace(b'"session"', b'"message"'), "unparseable"),
        (b"[1]\n", "unparseable"),
        (b"\xff\xfe\n", "unparseable"),
        (b"[" * 100_000, "unparseable"),
        (bytes(1_000_000), "unparseable"),
    ],
)
def test_only_what_begins_as_a_session_in_the_workspace_is_one(content, problem):
    assert problem_of(content) == problem


@given(st.binary(max_size=200))
def test_no_bytes_are_too_strange(content):
    assert problem_of(content) in {None, "absent", "unparseable"}
