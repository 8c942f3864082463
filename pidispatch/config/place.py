"""Work out the defaults that depend on who runs pidispatch, and where."""

import os
import pwd
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pidispatch.config.grammar import is_absolute


@dataclass(frozen=True, slots=True)
class Place:
    """Who and where this process is. `user_home` is None when the system knows no home for `uid`."""

    uid: int
    user_home: str | None
    host_name: str

    @classmethod
    def here(cls, environ: Mapping[str, str]) -> Self:
        uid = os.geteuid()
        return cls(uid, environ.get("HOME") or _home_of(uid), socket.gethostname())


def _home_of(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None


def default_texts(texts: Mapping[str, str], place: Place) -> dict[str, str]:
    """The defaults of every name whose default is no constant. Nothing durable lies in the temp directory.

    PIDISPATCH_HOME is missing from the answer when there is none.
    """
    defaults = {"PI_WORKER_NAME": place.host_name}
    if place.uid == 0:
        defaults["PIDISPATCH_HOME"] = "/var/lib/pidispatch"
    elif place.user_home:
        defaults["PIDISPATCH_HOME"] = f"{place.user_home}/.pidispatch"
    if place.user_home and is_absolute(place.user_home):
        defaults["PI_CODING_AGENT_DIR"] = f"{place.user_home}/.pi/agent"
    home = _absolute(texts.get("PIDISPATCH_HOME"), defaults.get("PIDISPATCH_HOME"))
    jobs = f"{home}/jobs"
    defaults |= {
        "PIDISPATCH_RUN_DIR": _run_dir(texts, place, home),
        "PI_JOBS_DIR": jobs,
        # Beside the per-job directories: a retained one is renamed there, which is atomic on one filesystem only.
        "PI_SANDBOX_DIR": f"{_absolute(texts.get('PI_JOBS_DIR'), jobs)}/sandboxes",
        "PI_LOGS_DIR": f"{home}/logs",
        "PI_SETTINGS_FILE": f"{home}/settings.json",
    }
    return defaults


def _run_dir(texts: Mapping[str, str], place: Place, home: str) -> str:
    # Two homes never share their sockets.
    if "PIDISPATCH_HOME" in texts:
        return f"{home}/run"
    # Root first: a service and a login shell of root must meet on one socket, and only the shell has the variable.
    if place.uid == 0:
        return "/run/pidispatch"
    runtime_dir = texts.get("XDG_RUNTIME_DIR", "")
    return f"{runtime_dir}/pidispatch" if is_absolute(runtime_dir) else f"{home}/run"


def _absolute(*candidates: str | None) -> str:
    # A refused directory must not make every directory beneath it a second problem.
    return next((each.rstrip("/") for each in candidates if each and is_absolute(each)), "/unknown")
