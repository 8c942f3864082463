"""Launch: prepare an admitted run and start its box."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import structlog

from pidispatch.domain import words
from pidispatch.domain.box.facts import JobPaths, LocalFolder
from pidispatch.domain.box.sandbox import (
    AGENT_DIR,
    GATE_DIR,
    GATE_SOCKET,
    HOME_DIR,
    JOB_DIR,
    LABEL_ATTEMPT,
    LABEL_INSTALLATION,
    LABEL_ROLE,
    LABEL_RUN,
    OUTBOX_DIR,
    ROLE_JOB,
    SESSION_DIR,
    SESSION_FILE,
    WORKSPACE_DIR,
    BoxSpec,
    Mount,
    box_name,
)
from pidispatch.domain.runs.names import folder_mutex
from pidispatch.domain.runs.outcome import Again, End
from pidispatch.domain.runs.run import BoxEnd, Claim, Job, Outcome
from pidispatch.domain.runs.session import Staged
from pidispatch.errors import (
    BoxFault,
    DiskFull,
    EngineUnavailable,
    FolderRefused,
    GatewayUnavailable,
    ImageMissing,
    NameTaken,
    SkillsRefused,
    StaleEpoch,
    Unavailable,
)
from pidispatch.flows.checks import Laps
from pidispatch.flows.cleanup import Cleanup
from pidispatch.flows.inputs import job_files
from pidispatch.flows.sessions import SessionKeeper
from pidispatch.flows.tenure import Hands
from pidispatch.ports import Boxes, Doors, HeadCommit, HostFiles, Mounts, OpenFolder, ReadSkills
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs

log = structlog.get_logger(__name__)

TRY_AGAIN = 3  # seconds until a part that did not answer is asked again, and as many more each time
LONGEST_PAUSE = 60
FULL_PAUSE = 10  # then the gate looks whether there is room, which is no attempt
MOST_TRIES = 30  # then a person is told: a run that is tried for ever holds up those behind it


@dataclass(frozen=True, slots=True)
class BoxLimits:
    """What one box may use: bytes, CPUs, seconds from its go; how deep its chain may go, its requests for more, and bytes of
    one file.
    """

    memory: int
    cpus: float
    timeout: int
    chain_depth: int = 0
    chain_requests: int = 0
    file_bytes: int | None = None


class Launcher:
    """From admitted to a started container. What fails on the way holds nothing and leaves nothing."""

    def __init__(
        self,
        *,
        host: str,
        installation: str,
        runs: Runs,
        endings: Endings,
        boxes: Boxes,
        mounts: Mounts,
        doors: Doors,
        files: HostFiles,
        open_folder: OpenFolder,
        head_commit: HeadCommit,
        sessions: SessionKeeper,
        read_skills: ReadSkills,
        cleanup: Cleanup,
        limits: BoxLimits,
        hands: Hands,
        forwarded: Mapping[str, str] | None = None,
    ) -> None:
        self._host = host
        self._installation = installation
        self._runs = runs
        self._endings = endings
        self._boxes = boxes
        self._mounts = mounts
        self._doors = doors
        self._files = files
        self._open_folder = open_folder
        self._head_commit = head_commit
        self._sessions = sessions
        self._read_skills = read_skills
        self._cleanup = cleanup
        self._limits = limits
        self._hands = hands
        self._forwarded = forwarded or {}

    def start(self, admitted: Claim) -> None:
        """Prepare and start. A run that somebody else took over meanwhile is left alone."""
        with self._hands.holding(admitted.run_id):
            self._start(admitted)

    def _start(self, admitted: Claim) -> None:
        claim = admitted
        name = box_name(self._installation, claim.run_id, claim.attempt)
        container: str | None = None
        laps = Laps(time.monotonic)
        try:
            job = self._runs.preparing(claim)
            claim = job.claim
            laps.lap("preparing")
            session = self._sessions.staged(job)
            wanted = self._prepare(job, name, session, laps)
            with self._mounts.hold(name, wanted.mounts) as held:
                spec = replace(wanted, mounts=tuple(held))
                container = self._boxes.create(spec)
                laps.lap("create")
                commit = self._head_commit(_folder_of(spec))
                self._boxes.start(container)
                laps.lap("start")
                self._mounts.check(container, spec.mounts)
                laps.lap("check")
                # Until this is written nobody gives the box its go: it waits at its door.
                claim = self._runs.boxed(
                    claim, container_id=container, name=name, commit_before=commit, session=session
                )
                laps.lap("boxed")
            log.info(
                "box_started",
                run=claim.public_id,
                attempt=claim.attempt,
                box=container[:12],
                milliseconds=laps.milliseconds(),
            )
        except (StaleEpoch, NameTaken) as error:
            log.warning("left_to_another", run=claim.public_id, problem=str(error))
            self._drop(container)
        except FolderRefused as error:
            log.warning("folder_refused", run=claim.public_id, reason=error.reason, problem=str(error))
            why = error.why if isinstance(error, SkillsRefused) else None
            self._give_up(claim, name, container, End(Outcome.POLICY, error.reason, why))
        except DiskFull as error:
            log.warning("cannot_start_now", run=claim.public_id, problem=str(error))
            self._give_up(claim, name, container, _when_there_is_room(claim.attempt))
        except BoxFault as error:
            log.warning("never_started", run=claim.public_id, why=error.why, problem=str(error))
            self._give_up(claim, name, container, _verdict(error))
        except Unavailable as error:
            log.warning("cannot_start_now", run=claim.public_id, problem=str(error))
            self._give_up(claim, name, container, _later(error, claim.attempt))

    def _prepare(self, job: Job, name: str, session: Staged, laps: Laps) -> BoxSpec:
        provider = self._doors.provider(job.terms.provider, job.terms.model)
        laps.lap("provider")
        if provider is None:
            raise BoxFault(f"the gateway no longer knows the provider {job.terms.provider}")
        folder = self._open_folder(job.folder)
        self._require_admitted(job, folder)
        laps.lap("folder")
        skills = {} if job.ask.skills_dir is None else self._read_skills(job.ask.skills_dir)
        laps.lap("skills")
        gate = self._doors.open(job.claim.run_id)
        laps.lap("door")
        files = job_files(job, provider, session, forwarded=self._forwarded, skills=skills)
        paths = self._files.prepare(name, files, uid=folder.uid, gid=folder.gid, session=session.content)
        laps.lap("files")
        return self._spec(job, name, folder, gate, paths)

    def _require_admitted(self, job: Job, folder: LocalFolder) -> None:
        """Whose lock the run holds, and for whose user it was admitted."""
        if job.mutex is None:  # a forge's run works in a copy of its own
            return
        if job.mutex != folder_mutex(self._host, *folder.identity) or job.owner not in {None, folder.uid}:
            raise FolderRefused(
                words.WORKSPACE_GONE,
                f"{folder.path!r} was exchanged or given away since the run was admitted",
            )

    def _spec(self, job: Job, name: str, folder: LocalFolder, gate: str, paths: JobPaths) -> BoxSpec:
        return BoxSpec(
            name=name,
            image=job.terms.image,
            uid=folder.uid,
            gid=folder.gid,
            labels={
                LABEL_INSTALLATION: self._installation,
                LABEL_ROLE: ROLE_JOB,
                LABEL_RUN: str(job.claim.run_id),
                LABEL_ATTEMPT: str(job.claim.attempt),
            },
            env=self._environment(job, name),
            mounts=(
                Mount(paths.job, JOB_DIR, read_only=True),
                Mount(folder.path, WORKSPACE_DIR, read_only=False, identity=folder.identity),
                Mount(paths.outbox, OUTBOX_DIR, read_only=False),
                Mount(paths.session, SESSION_DIR, read_only=False),
                Mount(gate, GATE_DIR, read_only=True),
                Mount(f"{paths.job}/agent/models.json", f"{AGENT_DIR}/models.json", read_only=True),
                Mount(f"{paths.job}/agent/settings.json", f"{AGENT_DIR}/settings.json", read_only=True),
            ),
            memory=self._limits.memory,
            cpus=self._limits.cpus,
            file_bytes=self._limits.file_bytes,
        )

    def _environment(self, job: Job, name: str) -> dict[str, str]:
        """A closed list, and no secret among it: the agent reads its environment."""
        ask, terms = job.ask, job.terms
        asked = {
            "PI_PROVIDER": terms.provider,
            "PI_MODEL": terms.model,
            "PI_MAX_TURNS": str(terms.max_turns),
            "PI_MAX_TOKENS": None if terms.max_tokens is None else str(terms.max_tokens),
            "PI_JOB_ID": name,
            "PI_FLOW": ask.flow,
            "PI_SESSION_FILE": SESSION_FILE,
            "PI_COMMAND": ask.command,
            "PI_EXCLUDE_TOOLS": ",".join(ask.excluded_tools or ()) or None,
            "PI_ALLOWED_MODELS": None if terms.allowed_models is None else ",".join(terms.allowed_models),
            "PI_MAX_COST_MICROS": None if terms.cost_cap_micros is None else str(terms.cost_cap_micros),
            "PI_OFFLINE": "1",
            "PI_TELEMETRY": "0",
            "PI_SKIP_VERSION_CHECK": "1",
            "PI_CODING_AGENT_DIR": AGENT_DIR,
            "PI_DISPATCH_ATTEMPT": str(job.claim.attempt),
            "PI_DISPATCH_GATE": GATE_SOCKET,
            "PI_DISPATCH_DEADLINE": str(self._limits.timeout),
            "PI_DISPATCH_CHAINS": "1" if self._may_chain(job) else None,
            "HOME": HOME_DIR,
        }
        return {key: value for key, value in asked.items() if value is not None}

    def _may_chain(self, job: Job) -> bool:
        """Whether what it asks for in its outbox could become a run."""
        return job.chain_depth < self._limits.chain_depth and self._limits.chain_requests > 0

    def _drop(self, container: str | None) -> None:
        """The box of an attempt that was taken over is named by no row, so nobody waits for its end."""
        if container is not None:
            with suppress(Unavailable, BoxFault):  # then the reconciler finds it
                self._boxes.remove(container)

    def _give_up(self, claim: Claim, name: str, container: str | None, verdict: End | Again) -> None:
        """Give everything back. If this cannot be written either, the reconciler takes the run back later."""
        try:
            finishing = self._runs.finishing(claim)
            if container is not None:
                self._boxes.remove(container)
            if isinstance(verdict, End):
                self._endings.end(finishing, verdict, BoxEnd())
            else:
                self._endings.again(finishing, verdict, BoxEnd())
        except (StaleEpoch, Unavailable, BoxFault) as error:
            log.warning("left_to_the_reconciler", run=claim.public_id, problem=str(error))
            return
        self._cleanup.after(claim.run_id, container, name)
        self._cleanup.ring(self._host)


def _folder_of(spec: BoxSpec) -> str:
    return next(mount.source for mount in spec.mounts if mount.target == WORKSPACE_DIR)


def _verdict(error: BoxFault) -> End:
    if isinstance(error, ImageMissing):
        return End(Outcome.POLICY, error.why)
    return End(Outcome.FAILED, words.CONTAINER_NEVER_STARTED, error.why)


def _when_there_is_room(attempt: int) -> End | Again:
    """It bought nothing, and room comes back: the run waits as one does that is not admitted for want of it."""
    if attempt >= MOST_TRIES:
        return End(Outcome.FAILED, words.CONTAINER_NEVER_STARTED, DiskFull.why)
    return Again(words.DISK_LOW, FULL_PAUSE)


def _later(error: Unavailable, attempt: int) -> End | Again:
    if attempt >= MOST_TRIES:
        return End(Outcome.FAILED, words.CONTAINER_NEVER_STARTED, words.TOO_MANY_STARTS)
    return Again(_unreachable(error), min(LONGEST_PAUSE, TRY_AGAIN * attempt))


def _unreachable(error: Unavailable) -> str:
    match error:
        case EngineUnavailable():
            return words.DOCKER_UNREACHABLE
        case GatewayUnavailable():
            return words.GATEWAY_UNREACHABLE
        case _:
            return words.SERVICE_UNREACHABLE
