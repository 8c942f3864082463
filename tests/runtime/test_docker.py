"""What boxes do when the engine has a bad day."""

import pytest

from pidispatch.errors import BoxFault, EngineUnavailable
from pidispatch.runtime.docker import DockerBoxes
from tests.support.boxes import a_box
from tests.support.engines import scripted_engine

BOX = "f" * 64
BUSY = (409, {"message": f"removal of container {BOX} is already in progress"})


def remove(tmp_path, answers):
    with scripted_engine(tmp_path / "s", answers) as engine:
        DockerBoxes(engine).remove(BOX)


def test_a_removal_that_somebody_began_is_waited_for(tmp_path):
    remove(
        tmp_path,
        {f"DELETE /containers/{BOX}": BUSY, f"POST /containers/{BOX}/wait": (200, {"StatusCode": 0})},
    )


def test_a_box_that_vanished_during_the_wait_is_gone(tmp_path):
    remove(tmp_path, {f"DELETE /containers/{BOX}": BUSY})


def test_a_box_that_cannot_be_removed_is_a_fault(tmp_path):
    with pytest.raises(BoxFault, match="device or resource busy"):
        remove(tmp_path, {f"DELETE /containers/{BOX}": (500, {"message": "device or resource busy"})})


def frame(stream, data):
    return bytes([stream, 0, 0, 0]) + len(data).to_bytes(4) + data


def tail(tmp_path, answer):
    with scripted_engine(tmp_path / "s", {f"GET /containers/{BOX}/logs": answer}) as engine:
        return DockerBoxes(engine).tail(BOX, 100)


def test_what_the_engine_says_of_its_log_is_not_what_the_box_said(tmp_path):
    chunks = [frame(1, b"said\n"), frame(3, b"Error grabbing logs: no such file or directory\n")]

    assert tail(tmp_path, (200, chunks)) == b"said\n"


def test_a_box_that_is_being_removed_has_no_tail(tmp_path):
    assert tail(tmp_path, (409, {"message": "can not get logs from container which is dead"})) == b""


def test_an_engine_that_is_restarting_is_no_empty_tail(tmp_path):
    with pytest.raises(EngineUnavailable):
        tail(tmp_path, (503, {"message": "shutting down"}))


@pytest.mark.docker
@pytest.mark.parametrize(("entrypoint", "engines_init"), [(None, False), (("sleep", "1"), True)])
def test_an_image_that_brings_its_init_gets_none_of_the_engine_by_its_own_entrypoint(
    boxes, installation, job_image, engine, entrypoint, engines_init
):
    made = boxes.create(a_box(installation, job_image, entrypoint=entrypoint, file_bytes=4096))

    config = engine.api.inspect_container(made)["HostConfig"]

    assert config["Init"] is engines_init
    limits = {each["Name"]: (each["Soft"], each["Hard"]) for each in config["Ulimits"]}
    assert limits == {"core": (0, 0), "fsize": (4096, 4096)}
