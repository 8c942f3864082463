"""The flows' site (a real Postgres, with boxes, doors and files that a test commands), and a real Docker engine."""

import pytest

from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from tests.flows.conftest import site
from tests.support.boxes import an_installation, image_or_skip

__all__ = ["site"]


@pytest.fixture
def engine():
    made = Engine()
    image_or_skip(made)
    yield made
    made.close()


@pytest.fixture
def installation(engine):
    """The label of an installation of this test's own; its containers go with it."""
    with an_installation(DockerBoxes(engine)) as label:
        yield label
