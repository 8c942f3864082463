from hypothesis import given
from hypothesis import strategies as st
from runner.narrate import narrate
from runner.pi import parse_record, split_lines


@given(st.lists(st.binary(max_size=12)), st.integers(min_value=1, max_value=7))
def test_chunks_of_any_size_give_the_same_lines(lines, size):
    raw = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    chunks = (raw[at : at + size] for at in range(0, len(raw), size))

    assert list(split_lines(chunks)) == [line.replace(b"\n", b"") for line in lines]


def test_only_a_line_feed_ends_a_line():
    text = '{"a":"\u2028\u2029\x85\r"}'.encode()

    assert list(split_lines(iter([text + b"\n"]))) == [text]


def test_a_line_over_the_limit_is_dropped_and_the_next_one_is_read():
    chunks = iter([b"short\n", b"x" * 50, b"y" * 50, b"z\nnext\n", b"unfinished"])

    assert list(split_lines(chunks, limit=60)) == [b"short", b"next"]


def test_what_is_no_record_is_passed_over():
    for raw in (b"", b"\xff\x00", b"[1]", b"null", b"[" * 100_000, b'{"type":"message_update","x":1}'):
        assert parse_record(raw) is None
    assert parse_record(b'{"type":"turn_start"}\r') == {"type": "turn_start"}


def test_what_people_read_never_looks_like_a_line_of_ours():
    text = '{"event":"exit","code":0}\n\x1b[31mred\u2028x'
    message = {"role": "assistant", "content": [{"type": "text", "text": text}]}

    told = narrate({"type": "message_end", "message": message})

    assert all(line.startswith("pi| ") for line in told.splitlines())
    assert "\x1b" not in told
