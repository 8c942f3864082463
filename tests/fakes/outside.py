"""Fakes below the ports of what is outside of a worker; tests/contract holds them against the real things."""

import threading
from dataclasses import dataclass, field

from pidispatch.domain.box.facts import FolderState, ImageFacts, JobPaths
from pidispatch.domain.providers.calls import ProviderFacts
from pidispatch.domain.providers.rates import Rating
from pidispatch.domain.text.redaction import Redactor
from pidispatch.errors import EngineUnavailable, FolderRefused, GatewayUnavailable, QueueUnavailable
from pidispatch.ports import CheckEnd
from tests.support.image import IMAGE

KEY = "sk-test-4c1f9e07d2b8a6533f"  # of the gateway alone


@dataclass
class FakeImages:
    """`ports.Images`."""

    facts_by_tag: dict[str, ImageFacts] = field(
        default_factory=lambda: {IMAGE: ImageFacts("sha256:1", {}, "amd64", runs_here=True)}
    )
    down: bool = False
    engine: str = "ENGINE"

    def facts(self, tag):
        if self.down:
            raise EngineUnavailable("down")
        return self.facts_by_tag.get(tag)

    def engine_id(self):
        if self.down:
            raise EngineUnavailable("down")
        return self.engine


@dataclass
class FakeDoors:
    """`ports.Doors`. `directories` are those of doors that were opened and not removed."""

    providers: dict[str, ProviderFacts] = field(
        default_factory=lambda: {
            "scripted": ProviderFacts(
                "scripted", "openai-completions", known_to_pi=False, credential=True, rating=Rating.PRICED
            )
        }
    )
    down: bool = False
    opened: set[int] = field(default_factory=set)
    directories: set[int] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)

    def _answer(self):
        if self.down:
            raise GatewayUnavailable("down")

    def open(self, run_id):
        self._answer()
        self.opened.add(run_id)
        self.directories.add(run_id)
        return f"/run/g/{run_id}"

    def close(self, run_id):
        self._answer()
        self.opened.discard(run_id)

    def remove(self, run_id):
        self.close(run_id)
        self.directories.discard(run_id)

    def redact(self, data):
        self._answer()
        return Redactor([KEY]).data(data)

    def provider(self, name, model=None, run=None):
        self._answer()
        self.asked.append((name, model))
        return self.providers.get(name)


@dataclass
class FakeFiles:
    """`ports.HostFiles` of a host without a disk."""

    kept: dict[str, dict[str, bytes]] = field(default_factory=dict)
    sessions: dict[str, bytes] = field(default_factory=dict)

    def prepare(self, name, files, *, uid, gid, session=b""):
        self.kept[name], self.sessions[name] = dict(files), session
        return JobPaths(f"/jobs/{name}/job", f"/jobs/{name}/outbox", f"/jobs/{name}/session")

    def outbox(self, name):
        return f"/jobs/{name}/outbox"

    def session(self, name):
        return f"/jobs/{name}/session"

    def remove(self, name):
        self.kept.pop(name, None)

    def leftovers(self):
        return sorted(self.kept)


@dataclass
class FakeBell:
    """`ports.Bell`. Every bell is heard at once, but for `waiting`, which a test says."""

    starts: int = 0
    finishes: list[int] = field(default_factory=list)
    waiting: int = 0
    down: bool = False

    def _answer(self):
        if self.down:
            raise QueueUnavailable("down")

    def ring_start(self, host, times=1):
        self._answer()
        self.starts += times

    def ring_finish(self, host, run_id):
        self._answer()
        self.finishes.append(run_id)

    def pending(self, host):
        self._answer()
        return self.waiting


CHANGED = FolderState(is_root=True, head=None, dirty=True, problem=None)


@dataclass
class FakeGitBox:
    """`skills` by the commit they were committed at. What a run leaves is a change, but for what a test says."""

    skills_at: dict[str, dict[str, bytes]] = field(default_factory=dict)
    left: FolderState = CHANGED
    error: Exception | None = None
    asked: int = 0

    def state(self, folder, *, image):
        if self.error is not None:
            raise self.error
        return self.left

    def skills(self, folder, *, commit, flows, image):
        self.asked += 1
        if self.error is not None:
            raise self.error
        return {flow: content for flow, content in self.skills_at.get(commit, {}).items() if flow in flows}


@dataclass
class FakeSkills:
    """`given` by the directory; one that holds an error is there and cannot be read."""

    given: dict[bytes, dict[str, bytes] | Exception] = field(default_factory=dict)

    def check(self, path):
        if path not in self.given:
            raise FolderRefused("skills-dir-missing", "refused by the test")

    def read(self, path):
        self.check(path)
        found = self.given[path]
        if isinstance(found, Exception):
            raise found
        return found


@dataclass
class FakeChecks:
    """`ports.WaitChecks`. Programs that all take until they are released, and say go; `most` ran at a time."""

    release: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    now: int = 0
    most: int = 0
    broken_off: bool = False

    def ask(self, program, target):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        self.release.wait(20)
        with self.lock:
            self.now -= 1
        return CheckEnd(None, broken_off=True) if self.broken_off else CheckEnd(0)

    def break_off(self):
        self.broken_off = True
        self.release.set()
