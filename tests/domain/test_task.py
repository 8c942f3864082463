"""A task arrives whole, or visibly cut between two characters."""

import pytest

from pidispatch.domain.runs.ask import TASK_LIMIT, cut_task, task_text


@pytest.mark.parametrize("character", ["a", "é", "語", "🐢"])
@pytest.mark.parametrize("shift", range(4))
def test_a_long_task_is_cut_on_a_character_boundary(character, shift):
    task = (b"x" * shift) + character.encode() * (TASK_LIMIT // len(character.encode()) + 8)

    kept = cut_task(task)

    assert TASK_LIMIT - 4 < len(kept) <= TASK_LIMIT
    kept.decode()  # no character was broken
    assert task_text(kept, len(task)).endswith(
        f"[The task was cut here: {len(kept)} of {len(task)} bytes.]\n"
    )


def test_a_task_within_the_limit_is_untouched():
    task = "naïve 語\0 tab\t".encode()

    assert cut_task(task) == task
    assert task_text(task, len(task)) == "naïve 語\0 tab\t"


def test_bytes_that_are_no_text_show():
    assert task_text(b"a\xff\xed\xa0\x80b", 6).count("\N{REPLACEMENT CHARACTER}") >= 2
    assert cut_task(b"\x80" * (TASK_LIMIT + 10)).endswith(b"\x80")
