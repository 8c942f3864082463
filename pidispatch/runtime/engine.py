"""Open the Docker engine's API once for each thread, and turn its failures into our errors."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import docker
import docker.errors
import requests
import urllib3

from pidispatch.errors import (
    BoxFault,
    DiskFull,
    EngineUnavailable,
    EntrypointMissing,
    ImageMissing,
    NameTaken,
    PidispatchError,
    WrongArchitecture,
)

ANSWER_SECONDS = 30

# The engine answers prose; the first kind whose words are in it wins.
_KINDS: tuple[tuple[type[BoxFault], tuple[str, ...]], ...] = (
    (DiskFull, ("no space left",)),
    (
        WrongArchitecture,
        (
            "exec format error",
            "does not match the specified platform",
            "does not match the detected host platform",
            "no matching manifest",
        ),
    ),
    # runc names the program as `exec: "/name":`; a mount's missing file lacks that.
    (EntrypointMissing, ("executable file not found", 'exec: "', "no command specified")),
    (ImageMissing, ("no such image",)),
)


class _Kept:
    """A thread's client; its connections are closed with the thread, not whenever the collector comes by."""

    def __init__(self, client: docker.APIClient) -> None:
        self.client, self.process = client, os.getpid()

    def __del__(self) -> None:
        self.client.close()


class Engine:
    """One client per process and thread: docker-py's session is not thread-safe and must not cross a fork.

    `base_url` is what DOCKER_HOST would hold; None means the local engine's usual socket. An answer that takes longer
    than `answer_seconds` is not waited for; streams that may be quiet by nature have no such bound.
    """

    def __init__(self, base_url: str | None = None, *, answer_seconds: int = ANSWER_SECONDS) -> None:
        self._base_url = base_url
        self._answer_seconds = answer_seconds
        self._local = threading.local()
        self._remembered: dict[str, str] = {}

    @property
    def api(self) -> docker.APIClient:
        """The client of this thread, opened at first use. Raises EngineUnavailable."""
        kept: _Kept | None = getattr(self._local, "kept", None)
        if kept is None or kept.process != os.getpid():
            kept = self._local.kept = _Kept(self._open())
        return kept.client

    def remembered(self, fact: str, ask: Callable[[docker.APIClient], str]) -> str:
        """What cannot change while the engine runs; asked once for all threads, since it takes the engine long."""
        known = self._remembered.get(fact)
        if known is None:
            with translated(f"ask the engine's {fact}"):
                known = self._remembered[fact] = ask(self.api)
        return known

    def forget(self) -> None:
        """The engine may have been restarted, or replaced by another: ask again what it is."""
        self._remembered.clear()

    def close(self) -> None:
        """Close this thread's client; the next use opens another."""
        self._local.__dict__.pop("kept", None)

    @contextmanager
    def opened(self, *, timeout: int) -> Iterator[docker.APIClient]:
        """A client of its own for an act that may take longer, or must be shorter, than usual (seconds)."""
        client = self._open(timeout)
        try:
            yield client
        finally:
            client.close()

    def _open(self, timeout: int | None = None) -> docker.APIClient:
        with translated("open the engine's API"):
            return docker.APIClient(
                base_url=self._base_url, version="auto", timeout=timeout or self._answer_seconds
            )

    @contextmanager
    def translated(self, what: str) -> Iterator[None]:
        """`translated`, for those who hold an engine."""
        with translated(what):
            yield


@contextmanager
def translated(what: str) -> Iterator[None]:
    """Raise our errors for docker-py's. `what` says in a few words what was tried."""
    try:
        yield
    except PidispatchError:
        raise
    except docker.errors.APIError as error:
        raise _refusal(what, error) from error
    except docker.errors.DockerException as error:
        raise EngineUnavailable(f"{what}: {error}") from error
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
        # A read time-out says nothing of whether the engine did it: callers look before they repeat.
        raise EngineUnavailable(f"{what}: {error}") from error


def _refusal(what: str, error: docker.errors.APIError) -> PidispatchError:
    text = str(error.explanation or error)
    problem = f"{what}: {text}"
    lowered = text.lower()
    for kind, words in _KINDS:
        if any(word in lowered for word in words):
            return kind(problem)
    if isinstance(error, docker.errors.ImageNotFound):
        return ImageMissing(problem)
    if error.status_code == 409 and "already in use" in lowered:
        return NameTaken(problem)
    if error.status_code in {502, 503, 504}:
        return EngineUnavailable(problem)
    return BoxFault(problem)


@contextmanager
def given_or_own(engine: Engine | None) -> Iterator[Engine]:
    """The engine given, or one for the length of the block."""
    if engine is not None:
        yield engine
        return
    own = Engine()
    try:
        yield own
    finally:
        own.close()
