"""The fault matrix lists every cell, and its quick part is run with the tests."""

import subprocess
import sys
from collections import Counter

import pytest

from pidispatch.runtime.engine import Engine
from tests.fault.cells import LANES, quick_cells, read_matrix
from tests.fault.house import ROOT
from tests.support.boxes import image_or_skip
from tests.support.scale import NIGHTLY

# By day without the cell that the benchmark of the recovery plays, in a house like this.
CELLS = [name for name in quick_cells() if NIGHTLY or name != "worker x first-call-in-flight"]


def test_every_step_meets_every_fault_or_is_excluded_with_a_reason():
    matrix = read_matrix()

    named = Counter([cell.name for cell in matrix.declared] + list(matrix.excluded))
    assert set(named.values()) == {1}
    assert len(named) == len(matrix.steps) * len(matrix.victims)
    assert all(matrix.excluded.values())


def test_every_fault_has_a_lane_and_the_quick_cells_are_declared():
    matrix = read_matrix()

    assert sorted(matrix.victims) == sorted(victim for lane in LANES.values() for victim in lane)
    assert set(quick_cells()) <= {cell.name for cell in matrix.declared}


@pytest.mark.docker
@pytest.mark.xdist_group("fault")
def test_the_quick_cells_of_the_matrix_end_in_one_record_each():
    image_or_skip(Engine())

    done = subprocess.run(
        [sys.executable, "-m", "tests.fault.run", "--quick", "--cells", *CELLS],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(
        f"fault matrix: {len(CELLS)} declared, {len(CELLS)} run, 0 failed"
    )
