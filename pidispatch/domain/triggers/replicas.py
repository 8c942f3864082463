"""Make the linked runs of one event: the same request, done two or three times side by side."""

from dataclasses import replace

from pidispatch.domain.runs.run import NewRun

FEWEST, MOST = 2, 3


def replicas_of(run: NewRun, n: int | None) -> tuple[NewRun, ...]:
    """`n` runs that differ in id, number and subject alone, each admitted and paid for by itself.

    None or 1 is the run as it is. Raises ValueError for any number but 1 to 3: the file's grammar lets no other through.
    """
    if n is None or n == 1:
        return (run,)
    if not FEWEST <= n <= MOST:
        raise ValueError(f"a run has {FEWEST} or {MOST} replicas, not {n}")
    return tuple(_replica(run, i, n) for i in range(1, n + 1))


def _replica(run: NewRun, i: int, n: int) -> NewRun:
    subject = None if run.subject is None else replica_subject(run.subject, i)
    return replace(run, public_id=replica_id(run.public_id, i), subject=subject, replica=i, replicas=n)


def replica_id(public_id: str, replica: int) -> str:
    """As in the reference, so that a delivery sent again comes to the same runs."""
    return f"{public_id}-r{replica}"


def replica_subject(subject: str, replica: int | None) -> str:
    """The subject of one replica: replicas of one event do not stand in each other's way."""
    return subject if replica is None else f"{subject}:r{replica}"
