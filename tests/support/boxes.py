"""Build small boxes for tests; each test's containers carry a random installation of its own."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from pidispatch.domain.box.sandbox import (
    LABEL_INSTALLATION,
    LABEL_ROLE,
    MIB,
    ROLE_JOB,
    BoxSpec,
    box_name,
)
from pidispatch.errors import EngineUnavailable
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from tests.support.image import IMAGE

T = TypeVar("T")
SOMEBODY = 12345  # a uid that no image knows


def image_or_skip(engine: Engine) -> str:
    try:
        if not engine.api.images(name=IMAGE):
            pytest.skip(f"the engine has no image {IMAGE}")
    except EngineUnavailable as error:
        pytest.skip(str(error))
    return IMAGE


@contextmanager
def an_installation(boxes: DockerBoxes) -> Iterator[str]:
    """A random label, whose containers are removed at the end."""
    label = secrets.token_hex(4)
    yield label
    for box in boxes.ours(label):
        boxes.remove(box.container_id)


def a_box(installation: str, image: str, *entrypoint: str, **changes: Any) -> BoxSpec:
    wanted: dict[str, Any] = {
        "name": box_name(installation, secrets.randbelow(10**9), 1),
        "image": image,
        "uid": SOMEBODY,
        "gid": SOMEBODY,
        "labels": {LABEL_INSTALLATION: installation, LABEL_ROLE: ROLE_JOB},
        "mounts": (),
        "entrypoint": entrypoint,
        "memory": 256 * MIB,
        "working_dir": "/",
    }
    return BoxSpec(**wanted | changes)
