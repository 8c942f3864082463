"""`logs`: the output of a box while it exists, harmless to the terminal that shows it."""

import re
import threading
import tracemalloc

import pytest

from pidispatch.app import output
from pidispatch.domain.text.redaction import MASK, Redactor
from pidispatch.errors import EngineUnavailable
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.dockerruntime import DockerRuntime
from pidispatch.runtime.engine import Engine
from tests.cli.lives import begin, end, meanwhile
from tests.fakes.boxes import FakeBoxes
from tests.gateway.conftest import make_house, run_dir
from tests.gateway.parts import KEY
from tests.store.builders import a_host, a_run, value
from tests.support.boxes import a_box, an_installation, image_or_skip
from tests.support.image import IMAGE
from tests.support.patience import eventually

ESCAPES = b"plain \x1b[31mred\x1b[0m\ttab\r\nbell\x07 \xc2\x9bnot \xe2\x80\xaeleft \xed\xa0\x80 \xff end\n"


__all__ = ["make_house", "run_dir"]


@pytest.fixture
def gateway(bare, make_house, run_dir):
    """The one process that knows the providers' keys."""
    bare.setenv("PIDISPATCH_RUN_DIR", str(run_dir))
    return make_house()


@pytest.fixture
def boxes(monkeypatch, gateway):
    boxes = FakeBoxes()
    monkeypatch.setattr(DockerRuntime, "boxes", boxes)
    return boxes


@pytest.fixture
def boxed(database, boxes):
    """(the claim of a running run, its container)."""
    container = boxes.create(a_box("i" * 8, IMAGE, "sleep", "9"))
    boxes.start(container)
    a_run(database)
    return begin(database, container), container


def test_the_output_of_a_box_is_printed_without_what_a_terminal_obeys(pidispatch, boxes, boxed):
    boxes.finish(boxed[1], 0, ESCAPES)

    said = pidispatch("logs", boxed[0].public_id)

    assert said.code == 0
    assert said.out == "plain [31mred[0m\ttab\nbell not left \ufffd\ufffd\ufffd \ufffd end\n"


def test_a_key_in_the_output_is_masked_as_in_rows(pidispatch, boxes, boxed):
    boxes.finish(boxed[1], 0, f"it is {KEY}, or {KEY.encode().hex()}\n".encode())

    said = pidispatch("logs", boxed[0].public_id)

    assert said.out == "it is [redacted], or [redacted]\n"


def test_without_a_gateway_nobody_knows_what_to_mask(pidispatch, bare, boxes, boxed):
    boxes.finish(boxed[1], 0, f"it is {KEY}\n".encode())
    bare.setenv("PIDISPATCH_RUN_DIR", "/tmp/pd-cli-no-such-run")

    said = pidispatch("logs", boxed[0].public_id)

    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("pidispatch: the output may hold secrets that only the gateway knows")


@pytest.mark.parametrize("size", [1, 5, 11, 12, 40])
def test_a_key_that_is_spelled_out_is_never_shown_to_its_twelfth_letter(size):
    mask = Redactor([KEY]).data
    said = f"first {KEY} then\n{KEY}\n" + "\n".join(KEY) + "\nthe end\n"
    pieces = [said[at : at + size] for at in range(0, len(said), size)]

    shown = "".join(output.masked(pieces, mask))

    letters, secret = (re.sub(r"[\W_]+", "", text.lower()) for text in (shown.replace(MASK, "QQQ"), KEY))
    assert not any(secret[at : at + 12] in letters for at in range(len(secret) - 11))
    assert shown.startswith("first ")
    assert shown.endswith("the end\n")


def test_what_holds_no_secret_is_shown_as_it_came():
    pieces = ["one ", "two\n", "", "three " * 500, "\ud800".encode(errors="replace").decode()]

    assert "".join(output.masked(pieces, Redactor([KEY]).data)) == "".join(pieces)


def test_a_character_split_between_two_pieces_is_whole():
    assert (
        "".join(output.seen([b"a\xe2\x82", b"\xac\xf0\x9f", b"\x98\x80", b"\xe2"]))
        == "a\u20ac\U0001f600\ufffd"
    )


def test_a_long_output_needs_little_memory():
    def pieces():
        for _ in range(1600):
            yield b"x" * 65536

    tracemalloc.start()
    total = sum(len(text) for text in output.seen(pieces()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert total == 1600 * 65536
    assert peak < 2_000_000


def test_an_output_that_is_gone_with_its_container_is_said(pidispatch, database, boxes, boxed):
    claim, container = boxed
    end(database, claim)
    boxes.remove(container)

    said = pidispatch("logs", claim.public_id)

    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"{claim.public_id} has ended: its output is gone with its container\n"
        f"its record stays: pidispatch show {claim.public_id}\n"
    )


def test_a_waiting_run_has_no_output_yet(pidispatch, database, boxes):
    name = value(database, "SELECT public_id FROM runs WHERE id = :id", id=a_run(database))

    said = pidispatch("logs", str(name))

    assert said.code == 1
    assert said.err == f"{name} has no container yet: it is queued; --follow waits for it\n"


def test_following_waits_for_the_box(pidispatch, database, boxes):
    run_id = a_run(database)
    asked = threading.Event()

    def live():
        assert asked.wait(10)
        container = boxes.create(a_box("i" * 8, IMAGE, "printf", "here it is\n"))
        boxes.start(container)
        begin(database, container)

    asked.set()
    with meanwhile(live):
        said = pidispatch("logs", "--follow", str(run_id))

    assert (said.code, said.out) == (0, "here it is\n")


def test_following_a_run_that_never_had_a_box_ends(pidispatch, database, boxes):
    run_id = a_run(database)
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE runs SET state = 'ended', outcome = 'policy', reason = 'over-budget', ended_at = now()"
        )

    said = pidispatch("logs", "-f", str(run_id))

    assert said.code == 1
    assert "has ended: its output is gone" in said.err


def test_a_run_of_another_host_names_it(pidispatch, bare, database, boxed):
    a_host(database)
    bare.setenv("PI_WORKER_NAME", "h2")

    said = pidispatch("logs", boxed[0].public_id)

    assert said.code == 1
    assert said.err == f"pidispatch: {boxed[0].public_id} runs on h1; ask for its output there\n"


def test_an_engine_that_is_down_is_one_line(pidispatch, boxes, boxed):
    boxes.down = True

    said = pidispatch("logs", boxed[0].public_id)

    assert said.code == EngineUnavailable.exit_code
    assert said.err.count("\n") == 1


@pytest.mark.docker
def test_a_real_container_is_read_and_followed_to_its_end(pidispatch, database, gateway):
    engine = Engine()
    image = image_or_skip(engine)
    real = DockerBoxes(engine)
    script = r"printf 'one \033[31mtwo\n'; sleep 1.5; echo three >&2"
    with an_installation(real) as installation:
        container = real.create(a_box(installation, image, "sh", "-c", script))
        real.start(container)
        run_id = a_run(database)
        begin(database, container)
        assert eventually(lambda: real.tail(container, 100))

        now = pidispatch("logs", str(run_id))
        followed = pidispatch("logs", str(run_id), "--follow")
        real.remove(container)
        gone = pidispatch("logs", str(run_id))
    engine.close()

    assert (now.code, now.out) == (0, "one [31mtwo\n")
    assert (followed.code, followed.out) == (0, "one [31mtwo\nthree\n")
    assert gone.code == 1
    assert "is running: its output is gone with its container" in gone.err
