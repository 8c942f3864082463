"""Five ways a box cannot be started, five different words, each known within seconds."""

import gc
import io
import tarfile
import time

import pytest

from pidispatch.domain.box.sandbox import Mount, explain_start_failure
from pidispatch.errors import BoxFault, DiskFull, EngineUnavailable, ImageMissing
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from tests.support.boxes import a_box
from tests.support.engines import scripted_engine
from tests.support.patience import eventually, slowness


@pytest.fixture(autouse=True)
def quick():
    begin = time.monotonic()
    yield
    assert time.monotonic() - begin < 5 * slowness()


def why_it_ended(boxes, spec):
    container_id = boxes.create(spec)
    boxes.start(container_id)
    assert eventually(lambda: boxes.inspect(container_id).ended)
    return explain_start_failure(boxes.inspect(container_id).exit_code, boxes.tail(container_id, 8192))


@pytest.mark.docker
def test_a_missing_image_is_named(boxes, installation):
    with pytest.raises(ImageMissing) as refusal:
        boxes.create(a_box(installation, "pidispatch-no-such-image:1", "true"))

    assert refusal.value.why == "job-image-missing"
    assert "pidispatch-no-such-image:1" in str(refusal.value)


@pytest.mark.docker
def test_a_missing_entrypoint_is_known_from_what_the_init_says(boxes, installation, job_image):
    assert why_it_ended(boxes, a_box(installation, job_image, "/no/such/program")) == "entrypoint-missing"
    assert why_it_ended(boxes, a_box(installation, job_image, "nosuchprogram")) == "entrypoint-missing"


@pytest.mark.docker
def test_an_entrypoint_that_is_no_program_is_known(boxes, installation, job_image):
    assert why_it_ended(boxes, a_box(installation, job_image, "/etc/passwd")) == "entrypoint-not-executable"


@pytest.mark.docker
def test_an_entrypoint_that_fails_by_itself_is_not_explained_away(boxes, installation, job_image):
    assert why_it_ended(boxes, a_box(installation, job_image, "sh", "-c", "exit 1")) is None


@pytest.fixture
def foreign_image(engine, installation):
    """An image whose programs are for another processor (an ELF header of machine 243, RISC-V)."""
    program = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00\x01\x00\x00\x00" + bytes(40)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        # The init lets a shell try what the kernel will not run, so the shell is foreign too.
        for name in ("program", "bin/sh"):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = 0o755, len(program)
            tar.addfile(entry, io.BytesIO(program))
    tag = f"pidispatch-test-foreign-{installation}"
    engine.api.import_image_from_data(archive.getvalue(), repository=tag, tag="1")
    yield f"{tag}:1"
    engine.api.remove_image(f"{tag}:1", force=True)


@pytest.mark.docker
def test_a_program_for_another_processor_is_known(boxes, installation, foreign_image):
    assert why_it_ended(boxes, a_box(installation, foreign_image, "/program")) == "job-image-wrong-arch"


@pytest.mark.docker
def test_a_mount_whose_source_is_gone_is_an_error_that_names_it(boxes, installation, job_image, tmp_path):
    gone = str(tmp_path / "gone")

    with pytest.raises(BoxFault) as refusal:
        boxes.create(a_box(installation, job_image, "true", mounts=(Mount(gone, "/job", read_only=True),)))

    assert gone in str(refusal.value)
    assert not (tmp_path / "gone").exists()


@pytest.fixture
def absent_engine():
    yield Engine("unix:///nonexistent/docker.sock")
    gc.collect()  # while the filter below holds


# docker-py forgets a socket that could not connect.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_an_engine_that_is_down_is_named(absent_engine):
    with pytest.raises(EngineUnavailable) as refusal:
        DockerBoxes(absent_engine).create(a_box("00000000", "any", "true"))

    assert "the Docker engine does not answer" in str(refusal.value)


NO_SPACE = (500, {"message": "mkdir /var/lib/docker/overlay2/0123-init: no space left on device"})


@pytest.fixture
def full_engine(tmp_path):
    places = ("/containers/create", f"/containers/{'f' * 64}/start")
    with scripted_engine(tmp_path / "s", {f"POST {place}": NO_SPACE for place in places}) as engine:
        yield engine


@pytest.mark.parametrize("act", ["create", "start"])
def test_a_full_disk_is_named(full_engine, act):
    boxes = DockerBoxes(full_engine)

    with pytest.raises(DiskFull) as refusal:
        boxes.create(a_box("00000000", "any", "true")) if act == "create" else boxes.start("f" * 64)

    assert refusal.value.why == "disk-full"
