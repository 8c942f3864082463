"""Become a server process that dies with its parent: own session, other user, death signal, then exec.

Run as a file (`python -I -S execwrap.py PARENT SIGNAL UID GID USER PROGRAM ARGUMENT…`, `-` for no other user): no
Python code of ours may run between fork and exec of a process that has threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, death_signal: int) -> None:
    """Ask for `death_signal` when the thread that started us ends; exits at once if it already has."""
    if sys.platform != "linux":
        return
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    # The parent may have died before the call: nobody would tell us any more.
    if os.getppid() != parent:
        sys.exit(f"execwrap: the parent {parent} is gone")


def main(arguments: list[str]) -> None:
    parent, death_signal, uid, gid, user, *command = arguments
    os.setsid()
    os.umask(0o077)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if user != "-":
        os.setgid(int(gid))
        os.initgroups(user, int(gid))
        os.setuid(int(uid))
    # A change of credentials clears the death signal, so this comes after it.
    die_with_parent(int(parent), int(death_signal))
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])
