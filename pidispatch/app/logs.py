"""Log one JSON object a line on standard error; control characters arrive escaped."""

import logging
import sys

import structlog


def log_json(level: int = logging.INFO) -> None:
    """Set up structlog for a process of ours, and quiet libraries that report what is no news."""
    logging.getLogger("alembic").setLevel(logging.WARNING)
    # A bell that finds nothing to start is the normal end of a bell.
    logging.getLogger("dramatiq.worker.WorkerThread").setLevel(logging.ERROR)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(ensure_ascii=True),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def log_nothing() -> None:
    """For a process that answers one question: what is wrong is in its answer, and a log would be in its way."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
