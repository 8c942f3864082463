import gc
import os
import threading

import docker.errors
import pytest
import requests

from pidispatch.errors import (
    BoxFault,
    DiskFull,
    EngineUnavailable,
    EntrypointMissing,
    ImageMissing,
    NameTaken,
    WrongArchitecture,
)
from pidispatch.runtime.engine import Engine, translated


def refusal(status, text):
    response = requests.Response()
    response.status_code = status
    response.url, response.reason = "http+docker://x", "Error"
    kind = docker.errors.ImageNotFound if status == 404 and "image" in text else docker.errors.APIError
    return kind("refused", response=response, explanation=text)


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (404, "No such image: nosuch:latest", ImageMissing),
        (409, 'Conflict. The container name "/pi-job-1" is already in use by container "abc".', NameTaken),
        (500, "write /var/lib/docker/x: no space left on device", DiskFull),
        (
            400,
            'OCI runtime create failed: exec: "/nope": stat /nope: no such file or directory: unknown',
            EntrypointMissing,
        ),
        (400, 'exec: "nope": executable file not found in $PATH: unknown', EntrypointMissing),
        (400, "exec /usr/bin/python3: exec format error", WrongArchitecture),
        (400, "error mounting /a: stat /a: no such file or directory: unknown", BoxFault),
        (409, "cannot remove a running container", BoxFault),
        (503, "the engine is shutting down", EngineUnavailable),
    ],
)
def test_what_the_engine_says_becomes_one_of_our_errors(status, text, kind):
    with pytest.raises((BoxFault, EngineUnavailable)) as caught, translated("start the box"):
        raise refusal(status, text)

    assert type(caught.value) is kind
    assert "start the box" in str(caught.value)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("error", [requests.exceptions.ConnectionError("gone"), OSError("gone")])
def test_an_engine_that_does_not_answer_is_unavailable(error):
    with pytest.raises(EngineUnavailable), translated("look"):
        raise error


# docker-py drops the socket that could not connect without closing it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_an_engine_that_is_not_there_is_unavailable(tmp_path):
    engine = Engine(f"unix://{tmp_path}/none.sock")

    with pytest.raises(EngineUnavailable):
        _ = engine.api
    gc.collect()


@pytest.mark.docker
def test_each_thread_has_a_client_of_its_own():
    engine = Engine()
    others = []
    thread = threading.Thread(target=lambda: others.append(engine.api))
    thread.start()
    thread.join()

    assert engine.api is engine.api
    assert others[0] is not engine.api
    engine.close()


@pytest.mark.docker
def test_a_forked_process_opens_its_own_client():
    engine = Engine()
    before = engine.api
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, b"same" if engine.api is before else b"own")
        os._exit(0)
    os.waitpid(child, 0)

    assert os.read(reader, 10) == b"own"
    os.close(reader)
    os.close(writer)
    engine.close()
