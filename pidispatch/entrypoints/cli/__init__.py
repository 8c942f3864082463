"""The command line: `pidispatch`."""

import atexit
import contextlib
import errno
import gc
import io
import os
import sys
from typing import TextIO

from pidispatch.entrypoints.cli.commands import cli
from pidispatch.entrypoints.cli.output import READER_LEFT, complain
from pidispatch.errors import PidispatchError

# Imports make many objects and little garbage: to look for it as often as usual is a quarter of a short command.
GARBAGE_AFTER = 100_000

CANNOT_WRITE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF}


def main() -> None:
    """Run a command. Exit codes: 0 done, 1 failed, 2 configuration refused (or the command line not understood).

    141: who read standard output left (`| head`). Whatever standard output cannot take, a command never ends in a
    traceback for it, and what it had stored by then stays stored.
    """
    gc.set_threshold(GARBAGE_AFTER)
    atexit.register(gc.freeze)  # the end looks for garbage in all that was loaded, and nobody waits for that
    hold_descriptors()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal of few letters must not end a command
    sys.exit(_unwritten(_run()))


def hold_descriptors() -> None:
    """Put something in the place of a closed standard stream: else the first file or socket would take its number.

    It is open for reading alone, so what is written there is an error that is told, as on a full device.
    """
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            held = os.open(os.devnull, os.O_RDONLY)  # the lowest number that is free
            if name != "stdin":
                setattr(sys, name, os.fdopen(held, "w", encoding="utf-8", closefd=False))


def _run() -> str | int | None:
    """The exit code."""
    try:
        cli()
    except PidispatchError as error:
        with contextlib.suppress(OSError):
            complain(error)
        return error.exit_code
    except OSError as error:
        if error.errno not in CANNOT_WRITE:
            raise
        told = _not_written(error)
        _give_up(sys.stdout)  # what is held back still is not tried, and told, again
        return told
    except SystemExit as ended:
        return ended.code
    return 0


def _unwritten(code: str | int | None) -> str | int | None:
    """Write what is still held back, here and not at the interpreter's end, where a failure would be its own noise."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _give_up(stream)
            code = READER_LEFT if stream is sys.stdout else code
        except OSError as error:
            _give_up(stream)
            code = _not_written(error) if stream is sys.stdout else code
    return code


def _not_written(error: OSError) -> int:
    with contextlib.suppress(OSError):
        complain(PidispatchError(f"the output cannot be written: {error.strerror or error}"))
        sys.stderr.flush()
    return 1


def _give_up(stream: TextIO) -> None:
    """What could not be written is let go, or the interpreter would try again at its end and complain."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
