"""Start a child process that dies with us, and end it with all that it started."""

import contextlib
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pidispatch.services import execwrap
from pidispatch.services.account import Account
from pidispatch.services.faults import ServiceFailed

VARIABLE = "PIDISPATCH_PARENT_PIPE"


def exit_when_parent_dies(descriptor: int, *, grace: float = 10.0) -> threading.Thread:
    """Watch the read end of the supervisor's pipe: at its end SIGTERM goes to this process, `grace` seconds later it exits.

    The kernel closes the write end with the supervisor, also after `kill -9`. Call it in each process that must go
    (threads do not survive a fork). Raises OSError when `descriptor` is no inherited pipe.
    """
    if not stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        raise OSError(f"descriptor {descriptor} is not the supervisor's pipe")
    thread = threading.Thread(target=_watch, args=(descriptor, grace), name="parent-pipe", daemon=True)
    thread.start()
    return thread


def _watch(descriptor: int, grace: float) -> None:
    with contextlib.suppress(OSError):
        while os.read(descriptor, 1):
            pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(grace)
    os._exit(1)


SERVER_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
_POLL_SECONDS = 0.02


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    log: int,
    death_signal: signal.Signals,
    account: Account | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start `argv` (an absolute program first) in a session of its own, its output in the descriptor `log`.

    `cwd` is entered before the change of user. Only the main thread may call this: the death signal is sent when
    the *thread* that started the child ends.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("children are started by the main thread only")
    who = ("-", "-", "-") if account is None else (str(account.uid), str(account.gid), account.name)
    wrapper = (sys.executable, "-I", "-S", execwrap.__file__, str(os.getpid()), str(int(death_signal)))
    return subprocess.Popen(
        [*wrapper, *who, *argv],
        env=dict(env),
        cwd=cwd or "/",
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=tuple(pass_fds),
    )


def start_server(
    argv: Sequence[str], *, log: int, death_signal: signal.Signals, account: Account | None
) -> subprocess.Popen[bytes]:
    """`spawn` a server: a bare environment without our secrets; closes `log` here."""
    try:
        return spawn(argv, env=SERVER_ENVIRONMENT, log=log, death_signal=death_signal, account=account)
    finally:
        os.close(log)


def exit_status(process: subprocess.Popen[bytes]) -> int | None:
    """How the child ended (negative: by that signal), None while it lives. It stays unreaped, so its group keeps its id."""
    if process.returncode is not None:
        return process.returncode
    try:
        found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        # We were started with SIGCHLD ignored, so the kernel reaps.
        return process.poll()
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def end(process: subprocess.Popen[bytes], steps: Sequence[tuple[signal.Signals, float]]) -> int:
    """Send each signal in turn, wait its seconds, and kill at last the whole group; returns the exit status."""
    for number, seconds in steps:
        if exit_status(process) is not None:
            break
        send(process, number)
        wait_until(lambda: exit_status(process) is not None, seconds)
    signal_group(process, signal.SIGKILL)
    return process.wait()


def send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the child alone; unlike `Popen.send_signal` this never reaps it."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, number)


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal everything in the child's process group; the leader must not have been reaped."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            # Until setsid ran, the child is still in our own group.
            if os.getpgid(process.pid) == process.pid:
                os.killpg(process.pid, number)
            else:
                os.kill(process.pid, number)


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Poll `condition` for at most `seconds`; false when it stayed false."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def wait_ready(
    name: str, process: subprocess.Popen[bytes], ready: Callable[[], bool], *, seconds: float, log: Path
) -> None:
    """Return once `ready()`; raises ServiceFailed with the log's end when the child dies or takes too long."""

    def settled() -> bool:
        return exit_status(process) is not None or ready()

    if not wait_until(settled, seconds):
        raise ServiceFailed(name, f"not ready after {seconds:g} s; its log ends:\n{log_tail(log)}", log)
    status = exit_status(process)
    if status is not None:
        raise ServiceFailed(
            name, f"ended with {status} before it was ready; its log ends:\n{log_tail(log)}", log
        )


def open_log(path: Path, *, keep_bytes: int = 10_000_000) -> int:
    """A descriptor that appends to `path`; a file that grew past `keep_bytes` becomes `<path>.1` first."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > keep_bytes:
            path.replace(path.with_name(path.name + ".1"))
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def log_tail(path: Path, limit: int = 1500) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - limit))
        return file.read().decode(errors="replace").strip()
