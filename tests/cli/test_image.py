"""`image`: the state of the job image, from an engine that may not be there."""

import pytest

from pidispatch.app import jobimage
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.image import ImageCheck
from tests.support.boxes import image_or_skip

KEYS = ["tag", "ok", "image_id", "pi_version", "problems", "way_out"]


def test_an_image_that_is_wrong_says_how_and_the_way_out(command, monkeypatch):
    found = ImageCheck(
        "pi-job:x", "sha256:1", "1.5.0", ("it holds pi 1.5.0",), "run `pidispatch image build`"
    )
    monkeypatch.setattr(jobimage, "check", lambda tag, image_dir, engine: found)

    said = command("image", "check")
    document = command("image", "check", "--json").document

    assert said.code == 1
    assert said.out == "pi-job:x: it holds pi 1.5.0\nrun `pidispatch image build`\n"
    assert list(document) == KEYS
    assert (document["ok"], document["problems"]) == (False, ["it holds pi 1.5.0"])


def test_an_image_that_is_right_ends_0(command, monkeypatch):
    monkeypatch.setattr(
        jobimage, "check", lambda tag, image_dir, engine: ImageCheck(tag, "sha256:1", "1.6.0", (), "")
    )

    said = command("image", "check")

    assert (said.code, said.out) == (0, "ok: pi-job:latest holds pi 1.6.0 (sha256:1)\n")
    assert command("image", "check", "--json").document["way_out"] is None


def test_an_unknown_base_is_refused(command):
    assert command("image", "build", "--base", "scratch").code == 2


@pytest.mark.docker
def test_an_image_that_is_not_there_is_said_by_a_real_engine(command, bare):
    engine = Engine()
    image_or_skip(engine)
    engine.close()
    bare.setenv("PI_JOB_IMAGE", "pidispatch-no-such-image:1")

    said = command("image", "check")

    assert said.code == 1
    assert "the engine has no image pidispatch-no-such-image:1" in said.out
