"""The runner is imported as the image lays it out: `runner` beside `start.py`."""

import sys
from pathlib import Path

import pytest

IMAGE = Path(__file__).resolve().parents[2] / "image"
sys.path.insert(0, str(IMAGE))

from tests.runner.support import FakeGateway  # noqa: E402


@pytest.fixture
def gateway(tmp_path):
    # A path of at most 107 bytes fits a unix socket; pytest's own may be longer.
    with FakeGateway() as made:
        yield made
