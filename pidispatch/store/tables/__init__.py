"""The tables, with the rules that the database itself keeps: the one source of migrations and of statements."""

from pidispatch.store.tables.attempts import RUN_ATTEMPTS, RUN_PAYLOADS, RUN_SESSIONS, RUN_WAITS
from pidispatch.store.tables.base import METADATA, OCCUPYING_SQL, TOKEN
from pidispatch.store.tables.hosts import AUDIT_LOG, HOST_ZONES, HOSTS, OPERATOR_FILES, WORKERS
from pidispatch.store.tables.runs import RUNS, SCOPES, SUBJECTS
from pidispatch.store.tables.spend import (
    EGRESS_USES,
    PROVIDER_CALLS,
    RESERVATIONS,
    RUN_USAGE,
    SPEND_ADJUSTMENTS,
    SPEND_WINDOWS,
)
from pidispatch.store.tables.triggers import (
    BREAKERS,
    DELIVERIES,
    ONE_SHOTS,
    REARMED_ONE_SHOTS,
    SCHEDULE_SLOTS,
    SCHEDULES,
    UNCOUNTED_ENDINGS,
)

__all__ = [
    "AUDIT_LOG",
    "BREAKERS",
    "DELIVERIES",
    "EGRESS_USES",
    "HOSTS",
    "HOST_ZONES",
    "METADATA",
    "OCCUPYING_SQL",
    "ONE_SHOTS",
    "OPERATOR_FILES",
    "PROVIDER_CALLS",
    "REARMED_ONE_SHOTS",
    "RESERVATIONS",
    "RUNS",
    "RUN_ATTEMPTS",
    "RUN_PAYLOADS",
    "RUN_SESSIONS",
    "RUN_USAGE",
    "RUN_WAITS",
    "SCHEDULES",
    "SCHEDULE_SLOTS",
    "SCOPES",
    "SPEND_ADJUSTMENTS",
    "SPEND_WINDOWS",
    "SUBJECTS",
    "TOKEN",
    "UNCOUNTED_ENDINGS",
    "WORKERS",
]
