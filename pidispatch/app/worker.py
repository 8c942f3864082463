"""Build a worker process: its broker, what its actors do, and its threads."""

import os
import secrets
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import assert_never

import structlog

from pidispatch import __version__
from pidispatch.app.adapters import Adapters, mark_keeper, mark_reader, wait_keeper
from pidispatch.app.hostname import HostNameTaken
from pidispatch.app.installation import Installation, addresses
from pidispatch.app.keeping import limits_in_words
from pidispatch.app.monitor import Monitor
from pidispatch.app.rooms import disk_bounds, lacks_room, places_of
from pidispatch.app.triggerzone import host_zone
from pidispatch.config import AtSigterm, Settings, without_effect
from pidispatch.domain.health.hostidentity import Identity
from pidispatch.files.githead import head_commit
from pidispatch.files.outbox import read_outbox, read_session
from pidispatch.files.skills import check_skills, read_skills
from pidispatch.files.watching import FileWatch
from pidispatch.flows.admit import AdmissionGate
from pidispatch.flows.chain import ChainCollector, ChainLimits
from pidispatch.flows.checks import Checks
from pidispatch.flows.cleanup import Cleanup
from pidispatch.flows.finish import Changes, Finisher
from pidispatch.flows.launch import BoxLimits, Launcher
from pidispatch.flows.sessions import SessionKeeper
from pidispatch.gateway.client import open_doors
from pidispatch.ports import GitBox
from pidispatch.queue.admission import Admission
from pidispatch.queue.bells import RedisBell, ends_of, queue_of
from pidispatch.queue.boot import AtBoot, PrefetchThreads, WarmThreads
from pidispatch.queue.broker import WokenBroker, make_broker
from pidispatch.queue.server import check_redis
from pidispatch.queue.shutdown import PromptShutdown
from pidispatch.queue.threads import BesideTheWorker
from pidispatch.runtime.filesystems import measure
from pidispatch.runtime.usage import written_by
from pidispatch.store.admission.transaction import Admissions
from pidispatch.store.hosts.zones import HostZones
from pidispatch.store.runs.chains import Chains
from pidispatch.store.runs.sessions import Sessions
from pidispatch.store.triggers.schedules import Schedules
from pidispatch.upkeep.leaving import STOP_SECONDS, Leaving
from pidispatch.upkeep.orphans import Orphans
from pidispatch.upkeep.reconciler import Reconciler, beat, watch_deaths
from pidispatch.upkeep.rooms import RoomKeeper
from pidispatch.upkeep.scheduledruns import ScheduledRuns
from pidispatch.upkeep.scheduler import Scheduler
from pidispatch.upkeep.workspaces import WorkspaceWatch

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class WorkerApp:
    """What `actors` needs: the broker to declare actors on, and what they do; `wake` makes its reconciler look."""

    host: str
    broker: WokenBroker
    launcher: Launcher
    finisher: Finisher
    wake: threading.Event


def build_worker(settings: Settings) -> WorkerApp:
    """Raises ConfigurationRefused, SchemaDiffers, DatabaseUnavailable, QueueUnavailable: then nothing has started.

    Among what is refused is a host name under which another machine lives.
    """
    where = addresses(settings)
    here = Installation(settings, application="pidispatch worker", connections=5, where=where)
    _ = here.database  # refused before anything else when its schema differs
    for problem in check_redis(where.redis):
        log.warning("redis_is_not_durable", problem=problem)
    adapters = Adapters(here, worker=f"{here.host}:{os.getpid()}:{secrets.token_hex(2)}")
    adapters.files.check()
    adapters.policies.load()
    adapters.triggers.load()
    log.info("limits_in_force", **limits_in_words(adapters.policies.current()))
    if idle := without_effect(settings.sources):
        log.warning("settings_without_effect_yet", names=list(idle))
    identity = adapters.identity()
    adapters.stand(identity)
    return _joined(adapters, adapters.hosts.installation(capacity=settings.concurrency), identity)


def _register(adapters: Adapters, identity: Identity) -> None:
    """Make this process known as a worker, once it boots as one. Raises HostNameTaken, DatabaseUnavailable."""
    adapters.lifelines.hold(adapters.worker)
    registered = adapters.hosts.register(
        worker=adapters.worker,
        pid=os.getpid(),
        version=__version__,
        capacity=adapters.settings.concurrency,
        identity=identity,
    )
    if not isinstance(registered, str):
        raise HostNameTaken(adapters.host, identity, registered)
    adapters.lost_lookers.count()  # a run that ends each worker as it starts must not be looked at again before


def _joined(adapters: Adapters, installation: str, identity: Identity) -> WorkerApp:
    beside = BesideTheWorker()
    gate = _gate(adapters)
    admission = Admission(gate)
    shutdown = PromptShutdown(begin=beside.begin_to_end, wait=_leaving(adapters))
    broker = make_broker(
        adapters.here.addresses.redis,
        middleware=[
            shutdown,
            AtBoot(queue_of(adapters.host), ends_of(adapters.host), lambda: _register(adapters, identity)),
            PrefetchThreads(),
            WarmThreads(gate.warm),
            beside,
            admission,
        ],
    )
    bell = RedisBell(broker)
    gitbox = adapters.git_box(installation)
    cleanup = Cleanup(boxes=adapters.boxes, doors=adapters.doors, files=adapters.files, bell=bell)
    finisher = Finisher(
        host=adapters.host,
        runs=adapters.runs,
        occupants=adapters.runs,
        workspaces=adapters.runs,
        folder_change=adapters.folder_change,
        endings=adapters.endings,
        reports=adapters.reports,
        boxes=adapters.boxes,
        finder=adapters.finder,
        doors=adapters.doors,
        chains=_chains(adapters, gitbox),
        changes=Changes(chains=Chains(adapters.database), gitbox=gitbox, open_folder=adapters.open_folder),
        redact=adapters.redact,
        sessions=_sessions(adapters),
        cleanup=cleanup,
        notes=adapters.notes,
        clock=adapters.database.now,
    )
    reconciler = _reconciler(adapters, installation, finisher, bell)
    for act in (adapters.lifelines.leave, broker.hear_no_more, admission.close, reconciler.leave):
        shutdown.at_first(act)
    wake = threading.Event()
    beside.add(lambda stop: reconciler.run(stop, wake), wake=wake)
    scheduler, planner_wake = _scheduler(adapters, bell), threading.Event()
    beside.add(lambda stop: scheduler.run(stop, planner_wake), wake=planner_wake)
    beside.add(lambda stop: watch_deaths(adapters.boxes, installation, stop, wake), awaited=False)
    watch = WorkspaceWatch(
        host=adapters.host,
        workspaces=adapters.runs,
        occupants=adapters.runs,
        folder_change=adapters.folder_change,
    )
    beside.add(watch.run, awaited=False)
    beside.add(lambda stop: beat(adapters.tenure.beat, stop))
    keeper = wait_keeper(
        adapters.settings, adapters.database, host=adapters.host, worker=adapters.worker, bell=bell
    )
    beside.add(keeper.run, wake=keeper.wake)
    beside.add(Monitor(_of_monitor(adapters.here), adapters.engine).run)
    beside.add(_room_keeper(adapters, installation).run)
    beside.add(FileWatch([adapters.policies.look, adapters.triggers.look]).run)
    beside.at_end(lambda: adapters.hosts.leave(adapters.worker))
    return WorkerApp(
        host=adapters.host,
        broker=broker,
        launcher=_launcher(adapters, installation, cleanup),
        finisher=finisher,
        wake=wake,
    )


def _leaving(adapters: Adapters) -> Leaving | None:
    """What SIGTERM waits for: nothing by default, since runs go on without a worker."""
    match adapters.settings.at_sigterm:
        case AtSigterm.LEAVE_RUNS:
            return None
        case AtSigterm.DRAIN:
            stop, within = False, None
        case AtSigterm.STOP_RUNS:
            stop, within = True, STOP_SECONDS
        case _ as never:
            assert_never(never)
    return Leaving(adapters.runs, host=adapters.host, worker=adapters.worker, stop=stop, within=within)


def _gate(adapters: Adapters) -> AdmissionGate:
    return AdmissionGate(
        admissions=Admissions(adapters.database, host=adapters.host, worker=adapters.worker),
        policies=adapters.policies,
        images=adapters.images,
        notes=adapters.notes,
        may_admit=adapters.tenure.may_admit,
        checks=Checks(
            host=adapters.host,
            images=adapters.images,
            doors=adapters.doors,
            open_folder=adapters.open_folder,
            notes=adapters.notes,
            held_back=adapters.breakers.held_back,
            check_skills=check_skills,
            mark=mark_reader(adapters.triggers),
            lacks_room=partial(lacks_room, adapters.settings, adapters.engine),
        ),
    )


def _chains(adapters: Adapters, gitbox: GitBox) -> ChainCollector:
    settings = adapters.settings
    return ChainCollector(
        chains=Chains(adapters.database),
        read_outbox=lambda name: read_outbox(adapters.files.outbox(name), most=settings.chain_max_per_job),
        gitbox=gitbox,
        open_folder=adapters.open_folder,
        head_commit=head_commit,
        policies=adapters.policies,
        limits=ChainLimits(settings.chain_depth_max, settings.chain_tree_runs, settings.chain_tree_micros),
        redact=adapters.redact,
    )


def _of_monitor(here: Installation) -> Installation:
    return Installation(here.settings, application="pidispatch health", where=here.addresses)


def _sessions(adapters: Adapters) -> SessionKeeper:
    most = adapters.settings.session_max_bytes
    return SessionKeeper(
        sessions=Sessions(adapters.database),
        images=adapters.images,
        read_session=lambda name: read_session(adapters.files.session(name), most=most, mask=adapters.redact),
    )


def _launcher(adapters: Adapters, installation: str, cleanup: Cleanup) -> Launcher:
    settings = adapters.settings
    return Launcher(
        host=adapters.host,
        installation=installation,
        runs=adapters.runs,
        endings=adapters.endings,
        boxes=adapters.boxes,
        mounts=adapters.mounts,
        doors=adapters.doors,
        files=adapters.files,
        open_folder=adapters.open_folder,
        head_commit=head_commit,
        sessions=_sessions(adapters),
        read_skills=read_skills,
        cleanup=cleanup,
        limits=BoxLimits(
            settings.job_memory,
            settings.job_cpus,
            settings.job_timeout,
            chain_depth=settings.chain_depth_max,
            chain_requests=settings.chain_max_per_job,
            file_bytes=settings.box_file_max,
        ),
        hands=adapters.hands,
        forwarded=adapters.forwarded,
    )


def _reconciler(adapters: Adapters, installation: str, finisher: Finisher, bell: RedisBell) -> Reconciler:
    gate_root: Path = adapters.settings.run_dir
    git_box = adapters.git_box(installation)
    return Reconciler(
        host=adapters.host,
        installation=installation,
        occupants=adapters.runs,
        runs=adapters.runs,
        boxes=adapters.boxes,
        watch=adapters.boxes,
        finder=adapters.finder,
        tenure=adapters.tenure,
        finisher=finisher,
        hands=adapters.hands,
        orphans=Orphans(
            installation=installation,
            boxes=adapters.boxes,
            doors=adapters.doors,
            files=adapters.files,
            occupants=adapters.runs,
            open_doors=partial(open_doors, gate_root),
        ),
        bell=bell,
        hosts=adapters.hosts,
        lost_lookers=adapters.lost_lookers,
        sweep=lambda: git_box.sweep() + adapters.mounts.sweep(),
        clock=adapters.database.now,
        mark=mark_keeper(adapters.database, adapters.settings.triggers_file, host=adapters.host),
    )


def _room_keeper(adapters: Adapters, installation: str) -> RoomKeeper:
    return RoomKeeper(
        installation=installation,
        places=partial(places_of, adapters.settings, adapters.engine),
        measure=measure,
        written_by=written_by,
        overfull=adapters.files.overfull,
        watch=adapters.boxes,
        boxes=adapters.boxes,
        occupants=adapters.runs,
        bounds=disk_bounds(adapters.settings),
    )


def _scheduler(adapters: Adapters, bell: RedisBell) -> Scheduler:
    runs = ScheduledRuns(host=adapters.host, open_folder=adapters.open_folder)
    return Scheduler(
        host=adapters.host,
        host_zone=host_zone(),
        zones=HostZones(adapters.database, host=adapters.host, by=adapters.worker).zones,
        schedules=Schedules(adapters.database, host=adapters.host, make=runs),
        triggers=adapters.triggers.current,
        runs=runs,
        bell=bell,
        most_bells=adapters.settings.concurrency + 1,
        count_endings=adapters.breakers.count,
    )
