"""The gateway's process: `python -m pidispatch.entrypoints.gateway`."""

import os
import resource
import sys

from pidispatch.app.loading import loading
from pidispatch.errors import PidispatchError
from pidispatch.services.child import VARIABLE as PARENT_PIPE
from pidispatch.services.child import exit_when_parent_dies

MOST_SOCKETS = 65_536


def main() -> int:
    with loading():
        from pidispatch.app.gateway import build_gateway
        from pidispatch.app.logs import log_json
        from pidispatch.config.environment import read_settings
    log_json()
    _allow_many_sockets()
    if PARENT_PIPE in os.environ:
        exit_when_parent_dies(int(os.environ[PARENT_PIPE]), grace=40.0)
    try:
        build_gateway(read_settings()).serve()
    except PidispatchError as error:
        print(f"pidispatch gateway: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _allow_many_sockets() -> None:
    """A run may hold two for each of its tunnels, and a host has many runs; the usual soft limit is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_SOCKETS if hard == resource.RLIM_INFINITY else min(MOST_SOCKETS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    raise SystemExit(main())
