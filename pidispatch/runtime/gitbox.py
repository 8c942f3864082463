"""Ask git about a folder an agent may have written, in a throw-away container."""

import re
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from pidispatch.domain.box.facts import FolderState, LocalFolder
from pidispatch.domain.box.gitobjects import file_at, objects_of
from pidispatch.domain.box.sandbox import (
    HOME_DIR,
    LABEL_BORN,
    LABEL_INSTALLATION,
    LABEL_ROLE,
    MIB,
    ROLE_GIT,
    WORKSPACE_DIR,
    BoxSpec,
    Mount,
)
from pidispatch.errors import BindsUnseen, BoxFault, EntrypointMissing, PidispatchError
from pidispatch.ports import Mounts
from pidispatch.runtime.attach import Said, attached
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.gitscripts import GIT_DIFF, GIT_SKILLS, GIT_STATE, parse_state, plain_words
from pidispatch.runtime.ownergit import NOTHING, OwnerView, owner_view

SECONDS = 10
STATE_BYTES = 64 * 1024
DIFF_BYTES = MIB
SKILLS_BYTES = 8 * MIB
STALE_SECONDS = 60

_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ENV = {
    "HOME": HOME_DIR,
    "LC_ALL": "C",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
}


class DockerGitBox:
    """`ports.GitBox`: the box does nothing until its live mount was seen to be the folder that was opened.

    What the folder's own git configuration may still run, it runs in here, on a read-only folder.

    `environment` is that of whoever asks, for the set-up of an owner who has no account. The answers are the folder's word about itself: an agent that prepared it can make git lie.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        installation: str,
        mounts: Mounts,
        environment: Mapping[str, str] = NOTHING,
        seconds: float = SECONDS,
    ) -> None:
        self._boxes = DockerBoxes(engine)
        self._mounts = mounts
        self._environment = environment
        self._engine = engine
        self._installation = installation
        self._seconds = seconds

    def state(self, folder: LocalFolder, *, image: str) -> FolderState:
        mark = secrets.token_hex(16)
        said = self._ask(folder, image, (GIT_STATE, mark), limit=STATE_BYTES)
        if said.late:
            problem = f"git did not answer within {self._seconds:g} s"
            return FolderState(is_root=False, head=None, dirty=False, problem=problem)
        return parse_state(said.out, mark.encode())

    def diff(self, folder: LocalFolder, *, since: str, image: str) -> bytes:
        _require_commit(since)
        said = self._ask(folder, image, (GIT_DIFF, since), limit=DIFF_BYTES)
        if said.late:
            raise BoxFault(f"git did not answer within {self._seconds:g} s")
        if said.cut:
            return said.out + f"\n[cut: only the first {DIFF_BYTES} bytes are shown]\n".encode()
        if said.exit_code != 0:
            raise BoxFault(f"git cannot compare with {since}: {plain_words(said.err)}")
        return said.out

    def skills(
        self, folder: LocalFolder, *, commit: str, flows: Sequence[str], image: str
    ) -> Mapping[str, bytes]:
        _require_commit(commit)
        said = self._ask(folder, image, (GIT_SKILLS, commit, *flows), limit=SKILLS_BYTES)
        if said.late:
            raise BoxFault(f"git did not answer within {self._seconds:g} s")
        objects = objects_of(said.out, commit)
        found = {flow: file_at(objects, commit, _skill_path(flow)) for flow in flows}
        return {flow: content for flow, content in found.items() if content is not None}

    def sweep(self) -> int:
        """Remove boxes that a killed process left behind; returns how many. Raises EngineUnavailable."""
        oldest = time.time() - STALE_SECONDS
        stale = [
            box
            for box in self._boxes.ours(self._installation)
            if box.labels.get(LABEL_ROLE) == ROLE_GIT and _born(box.labels) < oldest
        ]
        for box in stale:
            self._boxes.remove(box.container_id)
        return len(stale)

    def _ask(self, folder: LocalFolder, image: str, ask: tuple[str, ...], *, limit: int) -> Said:
        spec = self._spec(folder, image, ask=ask)
        word = _word(owner_view(folder.uid, self._environment))
        try:
            return self._asked(spec, word, limit)
        except BindsUnseen:  # once: from now on folders are told by name
            return self._asked(spec, word, limit)

    def _asked(self, wanted: BoxSpec, word: bytes, limit: int) -> Said:
        with self._mounts.hold(wanted.name, wanted.mounts) as held:
            spec = replace(wanted, mounts=tuple(held))
            container_id = self._boxes.create(spec)
            try:
                with attached(self._engine, container_id, silence=self._seconds + 5) as streams:
                    self._boxes.start(container_id)
                    self._mounts.check(container_id, spec.mounts)
                    with self._killed_when_late(container_id) as late:
                        streams.tell(word)
                        said = streams.hear(limit=limit)
                state = self._boxes.inspect(container_id)
            finally:
                self._boxes.remove(container_id)
        if late.is_set():
            return replace(said, late=True)
        code = state.exit_code if state else None
        if code == 127:
            raise EntrypointMissing(f"the image {spec.image} has no sh or no git: {plain_words(said.err)}")
        return replace(said, exit_code=code)

    @contextmanager
    def _killed_when_late(self, container_id: str) -> Iterator[threading.Event]:
        late = threading.Event()

        def kill() -> None:
            late.set()
            with suppress(PidispatchError):  # the reader's own time-out is the backstop
                self._boxes.stop(container_id, grace=0)

        timer = threading.Timer(self._seconds, kill)
        timer.daemon = True
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def _spec(self, folder: LocalFolder, image: str, *, ask: tuple[str, ...]) -> BoxSpec:
        return BoxSpec(
            name=f"pi-git-{self._installation}-{secrets.token_hex(6)}",
            image=image,
            uid=folder.uid,
            gid=folder.gid,
            labels={
                LABEL_INSTALLATION: self._installation,
                LABEL_ROLE: ROLE_GIT,
                LABEL_BORN: str(int(time.time())),
            },
            mounts=(Mount(folder.path, WORKSPACE_DIR, read_only=True, identity=folder.identity),),
            takes_input=True,
            env=_ENV,
            entrypoint=("sh", "-c", ask[0], "sh", *ask[1:]),
            memory=1024 * MIB,
            stop_timeout=1,
        )


def _word(view: OwnerView) -> bytes:
    """What a box waits for: `go`, and how the folder's owner has set up git."""
    files = {"core.excludesFile": "/tmp/ignore", "core.attributesFile": "/tmp/attributes"}  # noqa: S108 - in the box
    settings = [*files.items(), *view.settings]
    # Names and values are of a closed list; nobody's text gets in here.
    config = "".join(
        f"[core]\n\t{name.removeprefix('core.')} = {value}\n" for name, value in settings
    ).encode()
    lengths = f"go {len(config)} {len(view.ignore)} {len(view.attributes)}\n"
    return lengths.encode() + config + view.ignore + view.attributes


def _require_commit(name: str) -> None:
    if not _COMMIT.fullmatch(name):
        raise BoxFault(f"not the name of a commit: {name[:80]!r}")


def _skill_path(flow: str) -> Sequence[bytes]:
    return b".pi", b"skills", flow.encode(), b"SKILL.md"


def _born(labels: dict[str, str]) -> float:
    try:
        return float(labels[LABEL_BORN])
    except (KeyError, ValueError):
        return 0.0
