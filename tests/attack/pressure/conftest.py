"""The gateway over fakes, as the gateway's own tests have it, and a provider that says what it is told to."""

import pytest

from tests.attack.pressure.replies import Replies
from tests.gateway.conftest import make_house, manual, run_dir, scripted

__all__ = ["make_house", "manual", "run_dir", "scripted"]


@pytest.fixture
def replies():
    made = []

    def make(*answers, **more):
        made.append(Replies(*answers, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()
