import json
import os

from hypothesis import given
from hypothesis import strategies as st
from runner.exitline import cap_message, line, write


@given(st.text(), st.integers(min_value=0, max_value=60))
def test_a_message_is_cut_by_its_escaped_length_on_a_character(text, limit):
    cut = cap_message(text, limit)

    assert text.startswith(cut)
    assert len(json.dumps(cut)) - 2 <= limit
    if cut != text:
        assert len(json.dumps(text[: len(cut) + 1])) - 2 > limit


def test_a_message_of_control_characters_stays_in_the_tail():
    raw = line("exit", "job", {"code": 1, "reason": "error", "message": cap_message("\x00" * 5000)})

    assert len(raw) < 2200


def test_a_line_stands_alone_and_begins_with_its_event():
    raw = line("exit", "job", {"code": 0, "reason": "completed", "message": None})

    assert raw == b'\n{"event":"exit","jobId":"job","code":0,"reason":"completed"}\n'


def test_a_long_line_is_written_whole_through_a_small_pipe():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        write(b"x" * 1_000_000, writer)
        os._exit(0)
    os.close(writer)
    got = 0
    while chunk := os.read(reader, 65536):
        got += len(chunk)
    os.waitpid(child, 0)
    os.close(reader)

    assert got == 1_000_000


def test_a_closed_output_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)

    write(b"nobody reads this", writer)
    os.close(writer)
