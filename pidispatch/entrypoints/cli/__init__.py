"""The command line: `pidispatch`."""

import io
import sys

from pidispatch.entrypoints.cli.commands import cli
from pidispatch.entrypoints.cli.output import complain
from pidispatch.errors import PidispatchError


def main() -> None:
    """Run a command. Exit codes: 0 done, 1 failed, 2 configuration refused (or the command line not understood)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of few letters must not end a command
    try:
        cli()
    except PidispatchError as error:
        complain(error)
        sys.exit(error.exit_code)
