"""pidispatch lets the pi coding agent work on repositories while nobody watches.

The path of a run: something asks for it (`entrypoints`, later forges and schedules) → `ingest` writes one row in
Postgres and wakes a worker → the actor `start` is called behind the `Admission` middleware → `admit` chooses a due run
and decides, reserves and claims in one transaction → `execute` prepares its folder, its door at the gateway (the
socket by which the box reaches its model) and its box (the container) → the runner in the box asks whether it may
begin, drives pi and reports → the actor `finish` settles and writes the end. The reconciler in `upkeep` compares rows
with containers every two seconds and repairs what a crash left.

The rows, each knowing only those below it (docs/rooms.svg shows which rooms share a row):

    entrypoints    one process or one screen each; no decisions
        cli            the commands, a module each
        scripted       a model provider that follows a script, for the demo and for tests
    actors         what `dramatiq` loads; the only module that acts at import
    app            the one place that joins things
        checkup        what `doctor` checks of a whole installation
    upkeep         threads of every worker process: the reconciler and the scheduler
    ingest         the way in: a run is asked for, and becomes a row
    admit          the gate: which waiting run may start, and under which bounds
    execute        the way out: from an admitted run to its box, and from its box to the record
    config         the settings: names, defaults, where each comes from
    files          the operator's files on disk: watched, and replaced whole
    queue          Redis: messages that wake workers, and the worker's threads
    runtime        Docker: boxes, folders, the job image
    gateway        the process with the provider keys: doors, model calls, prices, egress
    store          Postgres: tables, transactions, what is read back
    services       Postgres and Valkey for a machine that has neither; processes and their ends
    monitoring     health and metrics over HTTP
    ports          what the flows need from outside
    shipped        where the migrations and the image's files lie
    domain         decisions: pure functions over values
        files          the formats of the operator's files
            triggers       the grammar of triggers.json
    errors         what can go wrong, with its exit code

Deliberately absent: anything that picks a run outside Postgres, a counter without the rows that explain it, a retry
by exit code, a container with a network or a key.
"""

__version__ = "0.1.0"
