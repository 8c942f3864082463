"""Read what git in a box printed, believing as little of it as possible."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.runtime.gitscripts import parse_state, plain_words

MARK = b"0123456789abcdef"
HEAD = b"a" * 40


def printed(**changes):
    sections = {
        "kind": b"directory",
        "top": b"/workspace\n",
        "refusal": b"",
        "name": HEAD + b"\n",
        "head": HEAD + b"\n",
        "borrows": b"",
        "code": b"0",
        "changes": b"",
        "trouble": b"",
        "end": b"",
    } | changes
    return b"".join(
        b"\n" + MARK + b" " + name.encode() + b"\n" + body
        for name, body in sections.items()
        if body is not None
    )


def test_a_clean_root_with_a_commit_has_no_problem():
    state = parse_state(printed(), MARK)

    assert (state.is_root, state.head, state.dirty, state.problem) == (True, HEAD.decode(), False, None)


def test_any_change_is_dirty():
    assert parse_state(printed(changes=b"?? new\0"), MARK).dirty


def test_a_status_that_failed_is_dirty_and_a_problem():
    state = parse_state(printed(code=b"128", trouble=b"fatal: \x1b[31mbad\nindex"), MARK)

    assert (state.dirty, state.problem) == (True, "git status failed: fatal: [31mbad index")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"end": None}, "incomplete"),
        ({"kind": b"none"}, "no .git"),
        ({"kind": b"file", "top": b""}, "worktree or a submodule"),
        ({"kind": b"link", "top": b""}, "symbolic link"),
        ({"top": b"/elsewhere\n"}, "work tree is elsewhere"),
        ({"top": b"", "refusal": b"fatal: this operation must be run in a work tree"}, "must be run in"),
    ],
)
def test_what_is_no_root_says_why(changes, words):
    state = parse_state(printed(**changes), MARK)

    assert (state.is_root, state.head) == (False, None)
    assert words in state.problem


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"head": b"", "name": b""}, "no commit yet"),
        ({"head": b"", "borrows": b"yes"}, "borrowed"),
        ({"head": b""}, "damaged"),
        ({"head": HEAD + b"; rm -rf /", "name": b""}, "no commit"),
    ],
)
def test_what_has_no_commit_says_why(changes, words):
    state = parse_state(printed(**changes), MARK)

    assert (state.is_root, state.head, state.dirty) == (True, None, True)
    assert words in state.problem


def test_a_files_name_does_not_pass_for_a_section():
    state = parse_state(printed(changes=b"?? a\nhead\n" + b"b" * 40 + b"\0"), MARK)

    assert state.head == HEAD.decode()


def test_the_first_of_two_sections_counts():
    assert parse_state(printed() + printed(head=b"b" * 40), MARK).head == HEAD.decode()


@given(st.binary(max_size=3000))
def test_no_output_breaks_the_reader_or_counts_as_clean(out):
    state = parse_state(out, MARK)

    assert state.problem is not None
    assert state.head is None


@given(st.binary(max_size=300))
def test_changed_sections_never_break_the_reader(noise):
    for name in ("kind", "top", "head", "name", "code", "changes", "trouble", "refusal"):
        parse_state(printed(**{name: noise}), MARK)


@given(st.binary(max_size=5000))
def test_plain_words_are_short_and_printable(said):
    words = plain_words(said)

    assert len(words) <= 300
    assert words.isprintable()
