"""The gateway of the other tests, before a provider that writes down what it is asked for."""

import os

import pytest

from tests.attack.ask.recorder import Recorder
from tests.gateway.conftest import make_house, run_dir

__all__ = ["is_nightly", "make_house", "recorder", "run_dir"]

NIGHTLY = "PIDISPATCH_NIGHTLY"


@pytest.fixture(scope="session")
def is_nightly():
    return os.environ.get(NIGHTLY) == "1"


@pytest.fixture
def recorder():
    with Recorder() as made:
        yield made
