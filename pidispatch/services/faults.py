"""What can go wrong with the servers that pidispatch runs itself."""

from pathlib import Path

from pidispatch.errors import ConfigurationRefused, PidispatchError


class ServiceFailed(PidispatchError):
    """A server or program of ours did not start, or did not do what it must. `log` holds the rest."""

    def __init__(self, name: str, problem: str, log: Path | None = None) -> None:
        self.name, self.problem, self.log = name, problem, log
        super().__init__(f"{name}: {problem}" + (f"\nthe whole log is in {log}" if log else ""))


class AlreadyRunning(PidispatchError):
    """Another process runs the services of this home. `pid` is 0 when its file does not say."""

    def __init__(self, home: Path, pid: int) -> None:
        self.home, self.pid = home, pid
        who = f"process {pid}" if pid else "another process"
        super().__init__(
            f"pidispatch already runs in {home} ({who}); stop it first, or use another PIDISPATCH_HOME"
        )


class BinariesMissing(PidispatchError):
    """No usable server program was found on this machine."""

    def __init__(self, what: str, ways_out: tuple[str, ...]) -> None:
        self.what, self.ways_out = what, ways_out
        super().__init__("\n  ".join((f"no usable {what} was found; any one of these helps:", *ways_out)))


class PathTooLong(ConfigurationRefused):
    """A socket's path would not fit the kernel's limit."""

    def __init__(self, socket: Path, limit: int) -> None:
        self.socket, self.limit = socket, limit
        size = len(bytes(socket))
        super().__init__(
            [
                f"the socket path {socket} has {size} bytes, at most {limit} work: choose a shorter run directory"
            ]
        )


class OutOfReach(ConfigurationRefused):
    """The user that runs the servers may not enter a directory that we do not own and so leave as it is."""

    def __init__(self, wanted: Path, barrier: Path, user: str) -> None:
        self.wanted, self.barrier, self.user = wanted, barrier, user
        problem = (
            f"user {user}, who runs the servers, cannot reach {wanted}: {barrier} may not be entered by others; "
            "allow that (chmod o+x), or choose a PIDISPATCH_HOME outside it, such as /var/lib/pidispatch"
        )
        super().__init__([problem])
