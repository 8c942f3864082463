"""Watch the room on every file system that runs and servers write to, and stop the run that takes the last of it."""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic

import structlog

from pidispatch.domain import words
from pidispatch.domain.disks import NOISE, Bounds, FileSystem, Room, blame
from pidispatch.domain.run import State
from pidispatch.domain.sandbox import LABEL_ROLE, LABEL_RUN, OUTBOX_DIR, ROLE_JOB, SESSION_DIR
from pidispatch.errors import PidispatchError
from pidispatch.ports import Boxes, BoxState, BoxWatch, Measure, Occupants, WrittenBy
from pidispatch.upkeep.pool import DaemonPool

log = structlog.get_logger(__name__)

LOOK = 0.2  # seconds between looks: a disk is written at gigabytes a second
LIST = 2.0  # seconds between two lists of boxes
AHEAD = 1.0  # seconds until a box that is stopped writes no more
RECORD = 0.5  # seconds that the row may take to say why, before the box is ended without it
AGAIN = 5.0  # seconds until a stop that changed nothing is tried again
_OWN_FILES = (OUTBOX_DIR, SESSION_DIR)


@dataclass(frozen=True, slots=True)
class _Writer:
    """A live box, and the folders that it may write to, each with the device of its file system."""

    box: BoxState
    folders: Mapping[str, int]


@dataclass
class _Mark:
    """How a file system stood when its fall began: the room it had, and what each box had written by then."""

    free: int
    names_free: int
    written: Mapping[str, int | None]


class RoomKeeper:
    """Needs the engine alone to end a box: Postgres may be the first to die of a full disk.

    `places` are the host's own, word for people → path; `overfull` tells of a box's outbox and session by its name.
    """

    def __init__(
        self,
        *,
        installation: str,
        places: Callable[[], Mapping[str, str]],
        measure: Measure,
        written_by: WrittenBy,
        overfull: Callable[[str], bool],
        watch: BoxWatch,
        boxes: Boxes,
        occupants: Occupants,
        bounds: Bounds,
    ) -> None:
        self._installation = installation
        self._places = places
        self._measure = measure
        self._written_by = written_by
        self._overfull = overfull
        self._watch = watch
        self._boxes = boxes
        self._occupants = occupants
        self._bounds = bounds
        self._pool = DaemonPool(4, "rooms")
        self._writers: list[_Writer] = []
        self._own: Mapping[str, str] = {}
        self._watched: dict[str, str] = {}
        self._listed: float | None = None
        self._marks: dict[int, _Mark] = {}
        self._last: dict[int, tuple[float, FileSystem]] = {}
        self._told: dict[int, Room] = {}
        self._stopped: dict[str, float] = {}

    def run(self, stop: threading.Event) -> None:
        """Look five times a second until `stop`."""
        while not stop.wait(LOOK):
            try:
                self.look(monotonic())
            except PidispatchError as error:
                log.warning("disk_watch_failed", problem=str(error))
            except Exception:
                log.exception("disk_watch_broke")
        self._pool.let_go()

    def look(self, now: float) -> None:
        """One pass; `now` is seconds of any clock that only goes forward."""
        if self._listed is None or now - self._listed >= LIST:
            self._listed = now
            self._list(now)
        measured = self._measure(self._watched)
        self._forget_disks({found.device for found in measured})
        for found in measured:
            self._judge(found, now)

    def _forget_disks(self, watched: Collection[int]) -> None:
        """What went while nobody wrote there is nobody's doing."""
        for known in (self._marks, self._last, self._told):
            for device in [device for device in known if device not in watched]:
                del known[device]

    def _list(self, now: float) -> None:
        """What lives, and where it writes. An engine that does not answer leaves the last list in force."""
        self._own = self._places()
        try:
            boxes = [box for box in self._watch.ours(self._installation) if _lives(box)]
        except PidispatchError as error:
            log.warning("disk_watch_failed", problem=str(error))
        else:
            boxes.sort(key=lambda box: (box.started_at is None, box.started_at))
            host = {each.device for each in self._measure(self._own)}
            self._writers = [self._writer(box, host) for box in boxes]
            self._forget({box.container_id for box in boxes})
        self._watched = {**self._own}
        for writer in self._writers:
            self._watched |= {f"the folder of {writer.box.name}": path for path in writer.folders}
        for writer in self._writers:
            if self._overfull(writer.box.name):
                self._stop(writer.box, words.BOX_FILES_TOO_LARGE, now)

    def _writer(self, box: BoxState, host: Collection[int]) -> _Writer:
        """An outbox and a session with a file system of their own may be full: that harms nobody else."""
        folders = {}
        for target, path in box.writes.items():
            for found in self._measure({target: path}):
                if target not in _OWN_FILES or found.device in host:
                    folders[path] = found.device
        return _Writer(box, folders)

    def _forget(self, live: set[str]) -> None:
        self._stopped = {box: at for box, at in self._stopped.items() if box in live}

    def _judge(self, found: FileSystem, now: float) -> None:
        at, before = self._last.get(found.device, (now, found))
        self._last[found.device] = (now, found)
        soon = found.soon(before, AHEAD / (now - at)) if now > at else found
        room = found.room(self._bounds)
        self._tell(found, room)
        mark = self._marks.get(found.device)
        ample = room is Room.AMPLE and now == self._listed  # seldom enough for a look at every process
        if mark is None or ample or found.free > mark.free:
            self._marks[found.device] = mark = self._mark(found)
        if soon.room(self._bounds) is Room.LAST:
            self._relieve(found, mark, now, names=soon.lacks_names())

    def _mark(self, found: FileSystem) -> _Mark:
        written = {writer.box.container_id: self._written(writer) for writer in self._on(found)}
        return _Mark(found.free, found.names_free, written)

    def _on(self, found: FileSystem) -> Sequence[_Writer]:
        return [writer for writer in self._writers if found.device in writer.folders.values()]

    def _written(self, writer: _Writer) -> int | None:
        return self._written_by(writer.box.container_id)

    def _relieve(self, found: FileSystem, mark: _Mark, now: float, *, names: bool) -> None:
        """`names`: they are what is running out."""
        fall = found.fall_since(mark.free, mark.names_free, names=names)
        if fall <= NOISE:
            return
        growths = self._growths(found, mark, names=names)
        blamed = blame(fall, growths)
        if (blamed is None or not blamed.known) and self._listed != now:
            self._listed = now
            self._list(now)  # a box that has just started may be the one
            growths = self._growths(found, mark, names=names)
            blamed = blame(fall, growths)
        if blamed is None:
            return
        box = next(writer.box for writer in self._writers if writer.box.container_id == blamed.box)
        if self._stop(box, words.DISK_LOW if blamed.known else words.DISK_LOW_SHARED, now):
            self._marks[found.device] = self._mark(found)  # the next one only if the room goes on falling
            log.error(
                "disk_stop",
                box=box.name,
                known=blamed.known,
                grown=growths[blamed.box],
                fallen=fall,
                disk=found.in_words(),
            )

    def _growths(self, found: FileSystem, mark: _Mark, *, names: bool) -> dict[str, int | None]:
        """What each box wrote since; of names nobody counts who made them."""
        writers = self._on(found)
        return {writer.box.container_id: None if names else self._growth(writer, mark) for writer in writers}

    def _growth(self, writer: _Writer, mark: _Mark) -> int | None:
        """A box that started since the fall began had written nothing before."""
        now, before = self._written(writer), mark.written.get(writer.box.container_id, 0)
        return None if now is None or before is None else max(0, now - before)

    def _tell(self, found: FileSystem, room: Room) -> None:
        before = self._told.get(found.device, Room.AMPLE)
        self._told[found.device] = room
        if room > before:
            say = log.warning if room is Room.SCARCE else log.error
            say("disk_scarce" if room is Room.SCARCE else "disk_low", disk=found.in_words())
        elif before >= Room.LOW > room:
            log.info("disk_has_room", disk=found.in_words())

    def _stop(self, box: BoxState, reason: str, now: float) -> bool:
        """At once and without a grace: it writes until it is dead. False while an earlier stop is under way."""
        asked = self._stopped.get(box.container_id)
        if asked is not None and now - asked < AGAIN:
            return False
        self._stopped[box.container_id] = now
        self._pool.submit(lambda: self._end(box, reason))
        return True

    def _end(self, box: BoxState, reason: str) -> None:
        if self._has_ended(box):  # by itself, since the boxes were listed: its run is what it made of it
            self._listed = None
            return
        written = self._pool.submit(lambda: self._request(box, reason))
        _await(written, RECORD)
        try:
            self._boxes.stop(box.container_id, grace=0)
        except PidispatchError as error:
            log.warning("disk_stop_failed", box=box.name, problem=str(error))

    def _has_ended(self, box: BoxState) -> bool:
        try:
            now = self._watch.inspect(box.container_id)
        except PidispatchError:
            return False  # nobody knows, and the disk fills up
        return now is None or now.ended

    def _request(self, box: BoxState, reason: str) -> None:
        """The row says why, before the box is seen to have ended."""
        run_id = int(box.labels[LABEL_RUN])
        run = self._occupants.occupant(run_id)
        if run is not None and run.container_id == box.container_id and run.state is not State.FINISHING:
            self._occupants.request_stop(run_id, reason=reason)


def _lives(box: BoxState) -> bool:
    return (
        box.labels.get(LABEL_ROLE) == ROLE_JOB and box.labels.get(LABEL_RUN, "").isdecimal() and not box.ended
    )


def _await(work: Future[None], seconds: float) -> None:
    try:
        work.result(timeout=seconds)
    except TimeoutError:
        log.warning("disk_stop_without_a_record", seconds=seconds)
    except PidispatchError as error:
        log.warning("disk_stop_without_a_record", problem=str(error))
