"""The gateway's process: `python -m pidispatch.entrypoints.gateway`."""

import os
import sys

from pidispatch.app.gateway import build_gateway
from pidispatch.app.logs import log_json
from pidispatch.app.places import read_settings
from pidispatch.errors import PidispatchError
from pidispatch.services.parentpipe import VARIABLE as PARENT_PIPE
from pidispatch.services.parentpipe import exit_when_parent_dies


def main() -> int:
    log_json()
    if PARENT_PIPE in os.environ:
        exit_when_parent_dies(int(os.environ[PARENT_PIPE]), grace=40.0)
    try:
        build_gateway(read_settings()).serve()
    except PidispatchError as error:
        print(f"pidispatch gateway: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
