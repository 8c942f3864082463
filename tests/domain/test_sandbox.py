"""What every box has, and why one did not start."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.box.sandbox import MIB, BoxSpec, box_name, explain_start_failure

TINI = b"[FATAL tini (7)] exec /opt/runner failed: "


def a_spec(**changes):
    return BoxSpec(name="n", image="i", uid=1000, gid=1001, labels={}, mounts=(), **changes)


def test_a_box_is_named_after_installation_run_and_attempt():
    assert box_name("0123abcd", 42, 2) == "pi-job-0123abcd-42-2"


def test_scratch_places_take_a_quarter_of_memory_each_and_belong_to_the_job():
    tmpfs = a_spec(memory=1024 * MIB).tmpfs

    assert set(tmpfs) == {"/tmp", "/home/pi", "/agent", "/run"}
    for place in ("/tmp", "/home/pi"):
        options = tmpfs[place].split(",")
        assert {"exec", "nosuid", "nodev", "mode=1777", f"size={256 * MIB}", "uid=1000", "gid=1001"} == set(
            options
        )
    for place in ("/agent", "/run"):
        assert "noexec" in tmpfs[place].split(",")


def test_shared_memory_is_half_of_a_small_box_and_a_gibibyte_of_a_large_one():
    assert a_spec(memory=512 * MIB).shm_size == 256 * MIB
    assert a_spec(memory=8192 * MIB).shm_size == 1024 * MIB


@pytest.mark.parametrize(
    ("code", "tail", "word"),
    [
        (127, TINI + b"No such file or directory\n", "entrypoint-missing"),
        (126, TINI + b"Permission denied\n", "entrypoint-not-executable"),
        (1, TINI + b"Exec format error\r\n", "job-image-wrong-arch"),
        (1, b"failed to exec pid1: Exec format error\n", "job-image-wrong-arch"),
        (126, b"", "entrypoint-not-executable"),
        (127, b"sh: 1: nothing: not found\n", None),
        (1, TINI + b"Argument list too long\n", None),
        (127, TINI + b"No such file or directory\nand then it went on\n", None),
        (None, b"", None),
    ],
)
def test_what_the_init_says_of_the_entrypoint_has_a_word(code, tail, word):
    assert explain_start_failure(code, tail) == word


@given(st.none() | st.integers(), st.binary(max_size=10_000))
def test_no_output_breaks_the_explanation(code, tail):
    explain_start_failure(code, tail)
    explain_start_failure(code, TINI + tail)
