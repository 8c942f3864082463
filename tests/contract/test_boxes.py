"""What every `Boxes` and `BoxWatch` does, on the fake as on a Docker engine."""

import gc
import queue
import secrets
import threading
from datetime import UTC, datetime, timedelta

import pytest

from pidispatch.errors import BoxFault, EngineUnavailable, ImageMissing, NameTaken
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from tests.fakes.boxes import FakeBoxes
from tests.support.boxes import a_box, an_installation, image_or_skip
from tests.support.image import IMAGE
from tests.support.patience import eventually

NOWHERE = "f" * 64


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.docker)])
def boxes(request):
    if request.param == "fake":
        yield FakeBoxes(images=[IMAGE])
        return
    engine = Engine()
    image_or_skip(engine)
    yield DockerBoxes(engine)
    engine.api.close()


@pytest.fixture
def installation(boxes):
    with an_installation(boxes) as label:
        yield label


@pytest.fixture
def box(installation):
    def build(*entrypoint, image=None, **changes):
        return a_box(installation, image or IMAGE, *entrypoint, **changes)

    return build


def close_connections(boxes):
    """Those of this thread."""
    if isinstance(boxes, DockerBoxes):
        boxes._engine.api.close()


def run(boxes, spec):
    container_id = boxes.create(spec)
    boxes.start(container_id)
    return container_id


def ended(boxes, container_id):
    def look():
        state = boxes.inspect(container_id)
        return state if state and state.ended else None

    return eventually(look)


def test_a_created_box_has_not_started(boxes, box):
    spec = box("sleep", "60")

    state = boxes.inspect(boxes.create(spec))

    assert (state.status, state.name, state.labels.items() >= spec.labels.items()) == (
        "created",
        spec.name,
        True,
    )
    assert (state.exit_code, state.started_at, state.finished_at, state.ended) == (None, None, None, False)


def test_a_running_box_has_no_exit_code_yet(boxes, box):
    state = boxes.inspect(run(boxes, box("sleep", "60")))

    assert (state.status, state.exit_code, state.finished_at) == ("running", None, None)
    assert abs(datetime.now(UTC) - state.started_at) < timedelta(minutes=1)


@pytest.mark.parametrize("code", [0, 3, 97])
def test_an_ended_box_tells_its_exit_code(boxes, box, code):
    state = ended(boxes, run(boxes, box("sh", "-c", f"exit {code}")))

    assert (state.status, state.exit_code, state.oom_killed) == ("exited", code, False)
    assert state.started_at <= state.finished_at


def test_a_second_box_of_the_same_name_is_refused(boxes, box):
    spec = box("sleep", "60")
    boxes.create(spec)

    with pytest.raises(NameTaken):
        boxes.create(spec)


def test_an_image_that_is_not_there_is_not_fetched(boxes, box):
    with pytest.raises(ImageMissing) as refusal:
        boxes.create(box("true", image="pidispatch-no-such-image:1"))

    assert refusal.value.why == "job-image-missing"


def test_a_box_that_does_not_exist_cannot_start(boxes):
    with pytest.raises(BoxFault):
        boxes.start(NOWHERE)


def test_a_stopped_box_has_ended(boxes, box):
    container_id = run(boxes, box("sleep", "60"))

    boxes.stop(container_id, grace=5)

    assert boxes.inspect(container_id).exit_code == 143


def test_a_removed_box_is_gone_even_if_it_ran(boxes, box):
    container_id = run(boxes, box("sleep", "60"))

    boxes.remove(container_id)

    assert boxes.inspect(container_id) is None


def test_ending_what_is_gone_or_ended_is_no_error(boxes, box):
    done = run(boxes, box("sh", "-c", "exit 0"))
    ended(boxes, done)

    for container_id in (done, NOWHERE):
        boxes.stop(container_id, grace=1)
        boxes.remove(container_id)
        boxes.remove(container_id)

    assert boxes.inspect(done) is None


def test_the_tail_is_the_end_of_the_output(boxes, box):
    container_id = run(boxes, box("printf", "first line\nlast line\n"))
    ended(boxes, container_id)

    assert boxes.tail(container_id, 10) == b"last line\n"
    assert boxes.tail(container_id, 1000) == b"first line\nlast line\n"
    assert boxes.tail(container_id, 0) == b""
    assert b"".join(boxes.output(container_id, follow=False)) == b"first line\nlast line\n"


def test_a_box_that_is_gone_said_nothing(boxes):
    assert boxes.tail(NOWHERE, 100) == b""
    assert list(boxes.output(NOWHERE, follow=False)) == []


def test_ours_are_those_of_this_installation_in_any_state(boxes, box, installation):
    created = boxes.create(box("sleep", "60"))
    running = run(boxes, box("sleep", "60"))
    done = run(boxes, box("sh", "-c", "exit 0"))
    ended(boxes, done)

    found = {state.container_id: state.status for state in boxes.ours(installation)}

    assert found == {created: "created", running: "running", done: "exited"}
    assert list(boxes.ours(secrets.token_hex(4))) == []


def test_deaths_are_told_as_they_happen(boxes, box, installation):
    heard = queue.SimpleQueue()

    def listen():
        for container_id in boxes.deaths(installation):
            heard.put(container_id)
            break
        close_connections(boxes)

    listener = threading.Thread(target=listen)
    listener.start()
    died = set()

    def one_more():
        # The first may end before anybody listens.
        died.add(run(boxes, box("sh", "-c", "exit 0")))
        listener.join(0.2)
        return not listener.is_alive()

    assert eventually(one_more, within=20)
    assert heard.get(timeout=1) in died


@pytest.fixture(params=["fake", "docker"])
def silent(request):
    """Boxes whose engine does not answer."""
    if request.param == "docker":
        yield DockerBoxes(Engine("unix:///nonexistent/docker.sock"))
    else:
        fake = FakeBoxes()
        fake.stop_answering()
        yield fake
    gc.collect()  # while the filter below holds


# docker-py forgets a socket that could not connect.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize(
    "ask",
    [
        lambda boxes: boxes.create(a_box("00000000", IMAGE, "true")),
        lambda boxes: boxes.start(NOWHERE),
        lambda boxes: boxes.stop(NOWHERE, grace=1),
        lambda boxes: boxes.remove(NOWHERE),
        lambda boxes: boxes.tail(NOWHERE, 10),
        lambda boxes: boxes.inspect(NOWHERE),
        lambda boxes: boxes.ours("00000000"),
        lambda boxes: next(boxes.deaths("00000000")),
        lambda boxes: list(boxes.output(NOWHERE, follow=False)),
    ],
)
def test_an_engine_that_does_not_answer_is_said_so_and_never_an_absence(silent, ask):
    with pytest.raises(EngineUnavailable):
        ask(silent)
