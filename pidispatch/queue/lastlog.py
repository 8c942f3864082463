"""Spare dramatiq's master the second that it waits for a log which says nothing more."""

import logging
import os
import sys

import structlog
from dramatiq.compat import StreamablePipe

log = structlog.get_logger(__name__)

# Waits for the end of the process that holds the other end of its input, and a moment longer.
OUTLIVE = "import os, time; os.read(0, 1); time.sleep(0.05)"


def outlive_this_process() -> None:
    """Let the log's pipe to the master end a moment after this process, by a child that holds it.

    The master's log thread notices that it should end when a pipe has, or after a second. A pipe that ends together
    with its process wakes it before the master has told it to.
    """
    pipe = _pipe_to_master()
    if pipe is None:
        return
    reader, _ = os.pipe()  # the other end closes with this process
    try:
        os.posix_spawn(
            sys.executable,
            [sys.executable, "-I", "-S", "-c", OUTLIVE],
            {},
            file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0), (os.POSIX_SPAWN_DUP2, pipe, 1)],
        )
    except OSError as error:
        log.info("master_waits_for_its_log", problem=str(error))


def _pipe_to_master() -> int | None:
    for handler in logging.getLogger().handlers:
        stream = getattr(handler, "stream", None)
        if isinstance(stream, StreamablePipe) and not stream.closed:
            return int(stream.fileno())
    return None
