"""pidispatch lets the pi coding agent work on repositories while nobody watches.

The data's path: something asks for a run (`entrypoints`, later forges and schedules) → `flows` writes one row in
Postgres and rings → the actor `start` wakes up behind the `Admission` middleware → `flows.admit` chooses a due run and
decides, reserves and claims in one transaction → `flows.launch` prepares its folder, its door at the gateway and its box
→ the runner in the box asks for its go, drives pi and reports → the actor `finish` settles and writes the end. The
reconciler in `upkeep` compares rows with containers every two seconds and repairs what a crash left.

The rows, each knowing only those below it:

    entrypoints   one process or one screen each; no decisions
    actors        what `dramatiq` loads; the only module that acts at import
    app           the one place that joins things
    upkeep        the reconciler: a thread of every worker process
    flows         way in, the gate, the box, way out
    config, files, queue, runtime, gateway, store, services, monitoring, demo    one adapter each; strangers
    ports         what the flows need from outside            shipped  where the migrations and the image's files lie
    domain        decisions: pure functions over values
    errors        what can go wrong, with its exit code

Deliberately absent: anything that picks a run outside Postgres, a counter without the rows that explain it, a retry
by exit code, a container with a network or a key.
"""

__version__ = "0.1.0"
