"""What every bell, image look-up, job file, door and note does, on the fake as on the real thing."""

import gc
import shutil
import tempfile
from pathlib import Path

import pytest

from pidispatch.domain.providers.calls import Ticket
from pidispatch.errors import EngineUnavailable, GatewayUnavailable, QueueUnavailable
from pidispatch.gateway.client import ControlDoors
from pidispatch.gateway.process import Gateway
from pidispatch.gateway.providers import Providers
from pidispatch.queue.bells import RedisBell
from pidispatch.queue.broker import make_broker
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.image import DockerImages
from pidispatch.runtime.jobfiles import JobFiles
from pidispatch.services.lifelines import Lifelines
from pidispatch.services.notes import WorkerNotes
from tests.fakes.notes import FakeNotes
from tests.fakes.outside import KEY, FakeBell, FakeDoors, FakeFiles, FakeImages
from tests.gateway.fakes import FakeLedger, FakeTickets, Switch
from tests.gateway.parts import CONTAINER
from tests.support.boxes import image_or_skip
from tests.support.image import IMAGE

NOBODYS_PORT = "redis://127.0.0.1:1/0"


@pytest.fixture(params=["fake", "redis"])
def bell(request):
    if request.param == "fake":
        yield FakeBell()
        return
    broker = make_broker(request.getfixturevalue("redis_url"), middleware=[])
    yield RedisBell(broker)
    broker.close()
    broker.client.close()


@pytest.fixture(params=["fake", "redis"])
def lost_bell(request):
    if request.param == "fake":
        yield FakeBell(down=True)
        return
    broker = make_broker(NOBODYS_PORT, middleware=[])
    yield RedisBell(broker)
    broker.close()
    broker.client.close()


def test_a_bell_is_rung_any_number_of_times_for_any_host(bell):
    bell.ring_start("h1")
    bell.ring_start("h1", 0)
    bell.ring_start("h1", 3)
    bell.ring_finish("h1", 7)
    bell.ring_finish("h1", 7)

    assert bell.pending("h1") >= 0
    assert bell.pending("nobody") == 0


def test_a_bell_without_its_queue_says_so_each_time(lost_bell):
    for ask in (
        lambda: lost_bell.ring_start("h1"),
        lambda: lost_bell.ring_finish("h1", 7),
        lambda: lost_bell.pending("h1"),
    ):
        with pytest.raises(QueueUnavailable):
            ask()


@pytest.fixture(params=["fake", pytest.param("docker", marks=pytest.mark.docker)])
def images(request):
    if request.param == "fake":
        yield FakeImages()
        return
    engine = Engine()
    image_or_skip(engine)
    yield DockerImages(engine)
    engine.close()


@pytest.fixture(params=["fake", "docker"])
def lost_images(request, tmp_path):
    if request.param == "fake":
        yield FakeImages(down=True)
        return
    engine = Engine(f"unix://{tmp_path}/nobody.sock")
    yield DockerImages(engine)
    engine.close()


def test_an_image_is_known_by_its_id_its_labels_and_where_it_runs(images):
    found = images.facts(IMAGE)

    assert found.image_id.startswith("sha256:")
    assert isinstance(found.labels, dict)
    assert found.architecture
    assert found.runs_here is True


def test_an_image_that_is_not_there_is_none(images):
    assert images.facts("no-such-image:at-all") is None


def test_an_engine_has_one_id(images):
    assert images.engine_id() == images.engine_id() != ""


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_an_engine_that_does_not_answer_knows_no_image_and_has_no_id(lost_images):
    with pytest.raises(EngineUnavailable):
        lost_images.facts(IMAGE)
    with pytest.raises(EngineUnavailable):
        lost_images.engine_id()
    gc.collect()  # while the filter holds: docker-py leaves the socket that was not answered


@pytest.fixture(params=["fake", "disk"])
def files(request, tmp_path):
    return FakeFiles() if request.param == "fake" else JobFiles(tmp_path / "jobs")


def test_a_box_has_its_files_until_they_are_removed(files):
    paths = files.prepare("pi-job-a-1-1", {"task.md": b"x", "a/b": b"y"}, uid=1000, gid=1000)

    assert files.outbox("pi-job-a-1-1") == paths.outbox
    assert files.session("pi-job-a-1-1") == paths.session
    assert len({paths.job, paths.outbox, paths.session}) == 3
    assert files.leftovers() == ["pi-job-a-1-1"]
    files.remove("pi-job-a-1-1")
    files.remove("pi-job-a-1-1")
    assert list(files.leftovers()) == []


def test_files_are_laid_out_anew_in_place_of_those_of_an_earlier_try(files):
    first = files.prepare("pi-job-a-1-1", {"task.md": b"x"}, uid=1000, gid=1000)
    files.prepare("pi-job-a-2-1", {}, uid=1000, gid=1000)

    assert files.prepare("pi-job-a-1-1", {}, uid=1000, gid=1000, session=b"{}") == first
    assert files.leftovers() == ["pi-job-a-1-1", "pi-job-a-2-1"]


def test_a_box_that_never_had_files_has_places_all_the_same(files):
    assert files.outbox("pi-job-a-3-1") != files.session("pi-job-a-3-1")
    assert list(files.leftovers()) == []


@pytest.fixture
def run_dir():
    """A short one: a unix socket's path has 107 bytes at most."""
    path = Path(tempfile.mkdtemp(prefix="gw"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(params=["fake", "gateway"])
def doors(request, run_dir):
    if request.param == "fake":
        yield FakeDoors()
        return
    tickets = FakeTickets(Switch())
    for run_id in (7, 8):
        tickets.add(Ticket(run_id, f"local:{run_id}", 1, "scripted"), CONTAINER)
    providers = Providers(keys={"SCRIPTED_API_KEY": KEY}, upstreams={"scripted": "http://127.0.0.1:1/v1"})
    gateway = Gateway(
        run_dir,
        run_dir / "secret",
        "here",
        tickets=tickets,
        ledger=FakeLedger(tickets.switch, tickets),
        providers=providers,
        drain_seconds=0.2,
        stop_seconds=0.2,
    )
    gateway.start()
    made = ControlDoors(run_dir / "gateway.sock")
    made.end = tickets.runs.clear  # a door of a run that holds a slot is left alone
    yield made
    gateway.stop()


@pytest.fixture(params=["fake", "gateway"])
def lost_doors(request, run_dir):
    return FakeDoors(down=True) if request.param == "fake" else ControlDoors(run_dir / "gateway.sock")


def test_a_door_is_opened_and_closed_as_often_as_asked(doors):
    directory = doors.open(7)

    assert doors.open(7) == directory != doors.open(8)
    doors.close(7)
    doors.close(7)
    doors.close(9)
    getattr(doors, "end", lambda: None)()
    doors.remove(7)
    doors.remove(7)
    doors.remove(9)


def test_a_provider_is_known_or_it_is_not(doors):
    found = doors.provider("scripted", "happy", 7)

    assert (found.name, found.api, found.credential) == ("scripted", "openai-completions", True)
    assert doors.provider("nobody-knows") is None


def test_what_is_kept_holds_no_key(doors):
    assert KEY.encode() not in doors.redact(f"it said {KEY}\n".encode())
    assert doors.redact(b"plain\n") == b"plain\n"


def test_without_a_gateway_nothing_is_answered(lost_doors):
    for ask in (
        lambda: lost_doors.open(7),
        lambda: lost_doors.close(7),
        lambda: lost_doors.remove(7),
        lambda: lost_doors.provider("scripted"),
        lambda: lost_doors.redact(b"x"),
    ):
        with pytest.raises(GatewayUnavailable):
            ask()


@pytest.fixture(params=["fake", "lifelines"])
def notes(request, tmp_path):
    if request.param == "fake":
        return FakeNotes()
    lifelines = Lifelines(tmp_path / "workers")
    lifelines.hold("h1:1:ab")
    return WorkerNotes(lifelines)


def test_what_a_living_worker_has_in_hand_is_not_lost(notes):
    with notes.looking_at(7, 3), notes.finishing(8):
        assert list(notes.lookers_lost()) == []
        assert notes.finishers_lost(8) == 0
    with notes.looking_at(7, 4), notes.looking_at(7, 4):
        assert list(notes.lookers_lost()) == []
