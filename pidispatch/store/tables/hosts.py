"""The hosts, their workers and what their operators set or did."""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from pidispatch.store.tables.base import METADATA

OPERATOR_FILES = Table(
    "operator_files",
    METADATA,
    Column("host", Text, primary_key=True, comment="The host whose processes read it"),
    Column("name", Text, primary_key=True, comment="What it is: scoped_limits, triggers and so on"),
    Column("place", Text, primary_key=True, comment="Its path; one a line where several are judged together"),
    Column(
        "contents",
        ARRAY(LargeBinary()),
        comment="What the files held when they were last good, null for one that is not there; "
        "null in all when a known secret was in it",
    ),
    Column("digest", Text, comment="sha256 of the contents", nullable=False),
    Column(
        "in_force_since", DateTime(timezone=True), comment="When this content was first read", nullable=False
    ),
    Column(
        "problems",
        ARRAY(Text()),
        server_default=text("'{}'"),
        comment="What is wrong with the files now; then the content here is in force in their place",
        nullable=False,
    ),
    Column("bad_since", DateTime(timezone=True), comment="When they were first seen bad"),
    CheckConstraint("(bad_since IS NULL) = (cardinality(problems) = 0)", name="operator_files_bad_since"),
    CheckConstraint("digest ~ '^[0-9a-f]{64}$'", name="operator_files_digest"),
    comment="The last good content of each of the operator's files, by host",
)

HOST_ZONES = Table(
    "host_zones",
    METADATA,
    Column("host", Text, primary_key=True, comment="The host"),
    Column("zone", Text, comment="The zone of its schedules that name none themselves", nullable=False),
    Column(
        "settled_at",
        DateTime(timezone=True),
        server_default=func.now(),
        comment="When it was settled",
        nullable=False,
    ),
    Column("settled_by", Text, comment="The first worker that planned, or who changed it", nullable=False),
    CheckConstraint("zone <> ''", name="host_zones_zone"),
    comment="The zone of the schedules without tz, settled once for each host",
)

HOSTS = Table(
    "hosts",
    METADATA,
    Column("name", Text, primary_key=True, comment="PI_WORKER_NAME, else the host's name"),
    Column(
        "installation",
        Text,
        server_default=text("substr(md5(random()::text || clock_timestamp()::text), 1, 8)"),
        comment="8 hex digits in the labels of its containers: another installation's are never touched",
        nullable=False,
    ),
    Column("capacity", Integer, comment="Runs at a time on this host", nullable=False),
    Column("engine_id", Text, comment="The Docker engine's own id"),
    Column(
        "refused_at",
        DateTime(timezone=True),
        comment="When a worker of another machine was last refused under this name, until one is let in",
    ),
    Column("refused", Text, comment="The engine and place of that worker, for people"),
    Column(
        "heartbeat_at",
        DateTime(timezone=True),
        server_default=func.now(),
        comment="Last sign of life of any of its workers",
        nullable=False,
    ),
    Column("reconciled_at", DateTime(timezone=True), comment="When rows and containers were last compared"),
    CheckConstraint("capacity >= 1", name="hosts_capacity_positive"),
    comment="A machine that runs boxes; locked while one of its slots is taken",
)

WORKERS = Table(
    "workers",
    METADATA,
    Column("id", Text, primary_key=True, comment="host:pid:random"),
    Column("host", ForeignKey("hosts.name"), comment="The host it works on", nullable=False),
    Column("pid", Integer, comment="Its process id there", nullable=False),
    Column("version", Text, comment="The pidispatch it runs", nullable=False),
    Column("engine_id", Text, comment="The Docker engine that answers it"),
    Column(
        "place", Text, comment="Its machine's boot and its run directory: another place is another machine"
    ),
    Column(
        "started_at",
        DateTime(timezone=True),
        server_default=func.now(),
        comment="When it registered",
        nullable=False,
    ),
    Column(
        "heartbeat_at",
        DateTime(timezone=True),
        server_default=func.now(),
        comment="Last sign of life",
        nullable=False,
    ),
    Index("workers_host", "host", "heartbeat_at"),
    comment="A worker process; an old heartbeat means it is gone",
)

AUDIT_LOG = Table(
    "audit_log",
    METADATA,
    Column("id", BigInteger, Identity(always=True), primary_key=True, comment="Surrogate key"),
    Column(
        "at", DateTime(timezone=True), server_default=func.now(), comment="When it was done", nullable=False
    ),
    Column("actor", Text, comment="Who did it: user@host", nullable=False),
    Column("action", Text, comment="What was done: pause, resume, set, …", nullable=False),
    Column("subject", Text, comment="To what: a scope, a run, a key"),
    Column("detail", JSONB, comment="What a reader needs to understand it, as JSON"),
    comment="What operators did; rows are only ever added",
)
