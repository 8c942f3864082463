"""The gateway of the other tests, before a provider that writes down what it is asked for."""

import pytest

from tests.attack.ask.recorder import Recorder
from tests.gateway.conftest import make_house, run_dir
from tests.support.scale import NIGHTLY

__all__ = ["is_nightly", "make_house", "recorder", "run_dir"]


@pytest.fixture(scope="session")
def is_nightly():
    return NIGHTLY


@pytest.fixture
def recorder():
    with Recorder() as made:
        yield made
