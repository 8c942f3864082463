"""Read what boxes print, however much it is."""

import subprocess
import sys
import time

import pytest

from pidispatch.domain.box.sandbox import MIB
from tests.support.boxes import a_box
from tests.support.patience import eventually, slowness

pytestmark = pytest.mark.docker


def run(boxes, spec):
    container_id = boxes.create(spec)
    boxes.start(container_id)
    return container_id


def finish(boxes, container_id, within=10):
    assert eventually(lambda: boxes.inspect(container_id).ended, within=within)
    return container_id


READ_THE_TAIL = """
import re, sys, time
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
begin = time.monotonic()
tail = DockerBoxes(Engine()).tail(sys.argv[1], 65536)
seconds = time.monotonic() - begin
# Not ru_maxrss: a child inherits that from whoever forked it.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) // 1024
print(len(tail), tail[-4:].decode(), peak, seconds)
"""


def test_a_line_of_300_mb_does_not_fill_the_workers_memory(boxes, installation, job_image):
    script = "head -c 300000000 /dev/zero | tr '\\0' x; printf END."
    container_id = run(boxes, a_box(installation, job_image, "sh", "-c", script))
    finish(boxes, container_id, within=120)

    reader = subprocess.run(
        [sys.executable, "-c", READ_THE_TAIL, container_id], capture_output=True, check=True, text=True
    )

    size, end, mebibytes, seconds = reader.stdout.split()
    assert (int(size), end) == (65536, "END.")
    assert int(mebibytes) < 200
    assert float(seconds) < 5 * slowness()


def test_many_short_lines_reach_the_whole_tail(boxes, installation, job_image):
    script = "i=0; while [ $i -lt 5000 ]; do echo $i; i=$((i+1)); done; echo oops >&2"
    container_id = finish(boxes, run(boxes, a_box(installation, job_image, "sh", "-c", script)))

    tail = boxes.tail(container_id, 20_000)

    assert len(tail) == 20_000
    assert b"4998\n4999\n" in tail
    # The engine reads the two streams side by side, so this line may come well before the last one.
    assert b"oops\n" in boxes.tail(container_id, 100_000)


def test_output_follows_a_box_to_its_end(boxes, installation, job_image):
    container_id = run(boxes, a_box(installation, job_image, "sh", "-c", "echo one; sleep 1; echo two"))

    begin = time.monotonic()
    chunks = boxes.output(container_id, follow=True)
    first = next(chunks)
    waited = time.monotonic() - begin
    rest = b"".join(chunks)

    assert (first, rest) == (b"one\n", b"two\n")
    assert waited < 0.9 * slowness()
    assert boxes.inspect(container_id).exit_code == 0 or finish(boxes, container_id)


def test_a_box_that_takes_too_much_memory_is_known_for_it(boxes, installation, job_image):
    script = "x=x; while :; do x=$x$x; done"
    container_id = run(boxes, a_box(installation, job_image, "sh", "-c", script, memory=32 * MIB))
    finish(boxes, container_id, within=30)

    state = boxes.inspect(container_id)

    assert state.oom_killed
    assert state.exit_code == 137
