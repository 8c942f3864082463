"""End this process when the supervisor dies, however it dies, and however far up the tree it is."""

import contextlib
import os
import signal
import stat
import threading
import time

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
