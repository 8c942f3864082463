"""Name a run, its scope and its folder's lock, so that the same request has the same name."""

import hashlib
import os.path
import unicodedata
from datetime import UTC, datetime

LONGEST_SCHEDULE = 179  # characters of its id in the id of a run
LONGEST_BY_HAND = 176


def local_run_id(
    *,
    folder: bytes,
    flow: str | None,
    task: bytes,
    asked_at: datetime,
    provider: str | None = None,
    model: str | None = None,
    after: datetime | None = None,
    bounds: tuple[object, ...] = (),
) -> str:
    """The id of a run asked for by hand: the same words within one minute are one run, as in the reference."""
    minute = asked_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M")
    parts = [folder, (flow or "").encode(), task, minute.encode()]
    if provider is not None or model is not None:
        parts += [(provider or "").encode(), (model or "").encode(), b""]
    if after is not None:
        parts += [b"after", after.astimezone(UTC).isoformat().encode()]
    if bounds:  # who bounds a run must not be answered by one without bounds
        parts += [b"bounds", repr(bounds).encode()]
    return "local-" + hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def requeued_run_id(old: str, earlier: int, task: bytes | None = None) -> str:
    """The id of a run that repeats `old`, after `earlier` others did; `task` is the one given instead of its own."""
    parts = [b"requeue", old.encode(), str(earlier).encode()]
    if task is not None:
        parts.append(task)
    return "local-" + hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def granted_run_id(old: str, earlier: int) -> str:
    """The id of a run that goes on where `old` stopped, after `earlier` others did."""
    return "local-" + hashlib.sha256(f"grant\0{old}\0{earlier}".encode()).hexdigest()[:16]


def chained_run_id(parent: str, flow: str, task: bytes) -> str:
    """The id of a run that `parent` asked for in its outbox: no time in it, so that collecting twice makes no second."""
    parts = [parent.encode(), flow.encode(), task]
    return "chain-" + hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def scheduled_run_id(schedule: str, instant: datetime) -> str:
    """As in the reference. The same instant of one schedule is the same run, whoever plans it."""
    return f"repeat:{_short(schedule, LONGEST_SCHEDULE)}:{round(instant.timestamp()) * 1000}"


def manual_run_id(schedule: str, moment: datetime) -> str:
    """As in the reference. A schedule that is started by hand twice within one minute is one run."""
    return f"manual:{_short(schedule, LONGEST_BY_HAND)}:{moment.astimezone(UTC):%Y-%m-%dT%H:%M}"


def _short(schedule: str, longest: int) -> str:
    if len(schedule) <= longest:
        return schedule
    return hashlib.sha256(schedule.encode("utf-8", "surrogatepass")).hexdigest()


def folder_scope(folder: str) -> str:
    """The scope of a folder by its written path: absolute, NFC, links not followed. A hash: paths are personal."""
    lexical = os.path.abspath(unicodedata.normalize("NFC", folder.strip()))  # noqa: PTH100 - links stay
    lexical = "/" + lexical.lstrip("/")  # POSIX keeps two slashes at the beginning apart from one
    return "folder:" + hashlib.sha256(lexical.encode(errors="surrogateescape")).hexdigest()[:16]


def plain_scope(text: str) -> str:
    """How two spellings of a folder or a repository are compared: slashes at the end and spaces around do not count."""
    written = unicodedata.normalize("NFC", text.strip())
    if written.startswith("/"):
        return "/" + os.path.normpath(written).lstrip("/")
    return written.rstrip("/")


def folder_mutex(host: str, device: int, inode: int) -> str:
    """The lock of a folder by what was opened, so that links and case variants are one folder."""
    return f"inode:{host}:{device}:{inode}"


def trigger_name(identity: str) -> str:
    """What a run holds as the id of its trigger: text that fits its column and a terminal."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in identity)[:200]
