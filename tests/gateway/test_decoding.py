"""An answer is unpacked as its bytes come, in bounded pieces."""

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.gateway.calls.decoding import PIECE, decoded
from pidispatch.gateway.calls.upstream import ProviderAnswer, UpstreamFailed


def packed_answer(data, coding, *, size=100, status=200):
    fields = (("content-type", "x/y"), ("content-length", str(len(data))), ("content-encoding", coding))
    return ProviderAnswer(status, fields, iter([data[at : at + size] for at in range(0, len(data), size)]))


def unpacked(data, coding, **how):
    return b"".join(decoded(packed_answer(data, coding, **how)).chunks)


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS = {"gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": zlib.compress, "Deflate": raw_deflate, "identity": bytes}  # fmt: skip


@pytest.mark.parametrize("coding", PACKERS)
@given(data=st.binary(max_size=3_000), size=st.integers(1, 400))
def test_an_answer_comes_out_as_it_was_however_it_is_cut(coding, data, size):
    assert unpacked(PACKERS[coding](data), coding, size=size) == data


def test_the_fields_of_the_coding_are_gone():
    assert decoded(packed_answer(gzip.compress(b"x"), "gzip")).fields == (("content-type", "x/y"),)


def test_a_stream_is_handed_on_as_it_comes():
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    first = packer.compress(b"data: 1") + packer.flush(zlib.Z_SYNC_FLUSH)

    def chunks():
        yield first
        raise UpstreamFailed("cut", sent=True)

    answer = decoded(ProviderAnswer(200, (("content-encoding", "gzip"),), chunks()))

    assert next(answer.chunks) == b"data: 1"
    with pytest.raises(UpstreamFailed):
        next(answer.chunks)


def test_a_bomb_is_cut_off_and_takes_no_memory():
    bomb = zlib.compress(b"0" * (256 * 1024 * 1024), 9)
    tracemalloc.start()

    largest, made = 0, 0
    with pytest.raises(UpstreamFailed, match="grows"):
        for piece in decoded(packed_answer(bomb, "deflate", size=len(bomb))).chunks:
            largest, made = max(largest, len(piece)), made + len(piece)

    assert largest <= PIECE
    assert made < 64 * 1024 * 1024
    assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    tracemalloc.stop()


@pytest.mark.parametrize("coding", ["br", "zstd", "compress", "gzip, gzip", "gzip, br", "x"])
def test_a_coding_that_nobody_here_reads_is_refused(coding):
    with pytest.raises(UpstreamFailed):
        decoded(packed_answer(b"abc", coding))

    refusal = decoded(packed_answer(b"abc", coding, status=429))
    assert refusal.status == 429
    assert b"abc" not in b"".join(refusal.chunks)


@pytest.mark.parametrize(
    "broken",
    [gzip.compress(b"abc" * 100)[:-4], b"nonsense", gzip.compress(b"a") + b"rest"],
    ids=[
        "cut",
        "no gzip",
        "more behind it",
    ],  # a header holds the time, and would be another name in each process
)
def test_what_cannot_be_unpacked_breaks_off(broken):
    with pytest.raises(UpstreamFailed):
        unpacked(broken, "gzip")
