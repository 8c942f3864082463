"""pidispatch lets the pi coding agent work on repositories while nobody watches.

The path of a run: something asks for it (`entrypoints`, later forges and schedules) → `flows.ingest` writes one row in
Postgres and wakes a worker → the actor `start` is called behind the `Admission` middleware → `flows.admit` chooses a due
run and decides, reserves and claims in one transaction → `flows.launch` prepares its folder, its door at the gateway (the
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
        verbs          what the commands do
    upkeep         threads of every worker process: the reconciler and the scheduler
    flows          the way in, the gate, from an admitted run to its box, and from its box to the record
    config         the settings: names, defaults, where each comes from
    files          the operator's files on disk: watched, and replaced whole
    queue          Redis: messages that wake workers, and the worker's threads
    runtime        Docker: boxes, folders, the job image
    gateway        the process with the provider keys
        http           HTTP on its sockets, with bounds on all that a peer may send
        wire           what each wire API is: its requests, its answers, what bounds them
        door           a run's door: what its box asks, and when it must stop
        calls          model calls: bounded, paid for, passed on, measured
        egress         the way to other hosts
        prices         what a model costs
    store          Postgres
        tables         the tables, the one source of migrations and statements
        runs           runs from being asked for to their end, their calls and money
        admission      the admission transaction, pauses
        triggers       what arrives, schedules, breakers
        hosts          hosts and workers
        read           what is read back for people
    services       Postgres and Valkey for a machine that has neither; processes and their ends
    monitoring     health and metrics over HTTP
    ports          what the flows need from outside
    shipped        where the migrations and the image's files lie
    domain         decisions: pure functions over values
        runs           a run: what is asked, its states, its end, its exit line, its chain
        limits         windows, pauses, policy, and the files that set them
        triggers       what triggers.json means, events, one-shots, breakers, waits
            grammar        the grammar of triggers.json
        forges         what GitHub, GitLab, Forgejo and Azure DevOps say and do each in its own way
        schedules      instants of a cron pattern in its zone
        providers      providers, wire APIs, prices, pressure
        egress         hosts, addresses, the allowlist
        box            the locked-down container and what is put into it
        text           JSON with lines, fields, masking
        health         what is red
        files          the operator's files together: which holds, what each is
    errors         what can go wrong, with its exit code

Deliberately absent: anything that picks a run outside Postgres, a counter without the rows that explain it, a retry
by exit code, a container with a network or a key.
"""

__version__ = "0.1.0"
