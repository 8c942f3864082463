"""A real engine, the job image, and an installation of each test's own."""

import pytest

from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.mounts import DockerMounts
from tests.support.boxes import an_installation, image_or_skip


@pytest.fixture
def engine():
    engine = Engine()
    yield engine
    engine.api.close()


@pytest.fixture
def job_image(engine):
    return image_or_skip(engine)


@pytest.fixture
def boxes(engine, job_image):
    return DockerBoxes(engine)


@pytest.fixture
def mounts(engine, tmp_path_factory):
    return DockerMounts(engine, tmp_path_factory.mktemp("run"))


@pytest.fixture
def installation(boxes):
    with an_installation(boxes) as label:
        yield label
