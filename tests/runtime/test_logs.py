"""Undo the engine's multiplexing, in pieces of any size."""

from hypothesis import given
from hypothesis import strategies as st

from pidispatch.runtime.logs import FrameReader, Tail

frames = st.lists(st.tuples(st.integers(1, 3), st.binary(min_size=1, max_size=300)), max_size=8)


def multiplexed(written):
    return b"".join(bytes([stream, 0, 0, 0]) + len(data).to_bytes(4) + data for stream, data in written)


def joined(pieces):
    """Pieces of one stream that follow one another, as one."""
    found = []
    for stream, piece in pieces:
        if found and found[-1][0] == stream:
            found[-1] = (stream, found[-1][1] + piece)
        else:
            found.append((stream, piece))
    return found


@given(frames, st.integers(1, 50))
def test_frames_are_read_whatever_the_pieces_they_come_in(written, size):
    data = multiplexed(written)
    reader = FrameReader()

    read = [frame for start in range(0, len(data), size) for frame in reader.feed(data[start : start + size])]

    assert joined(read) == joined(written)
    assert all(piece for _, piece in read)


@given(st.lists(st.binary(max_size=200)))
def test_no_bytes_break_the_reader(pieces):
    reader = FrameReader()
    for piece in pieces:
        list(reader.feed(piece))


def test_an_empty_frame_is_skipped():
    assert list(FrameReader().feed(multiplexed([(1, b""), (2, b"x")]))) == [(2, b"x")]


@given(st.lists(st.binary(max_size=50)), st.integers(0, 60))
def test_the_tail_is_the_end_of_everything(pieces, limit):
    tail = Tail(limit)
    for piece in pieces:
        tail.add(piece)

    everything = b"".join(pieces)
    assert tail.bytes() == everything[len(everything) - min(limit, len(everything)) :]
    assert tail.total == len(everything)
