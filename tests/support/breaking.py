"""Breakers for tests: three failures open one, a quarter of an hour is the first back-off."""

from datetime import timedelta
from itertools import count

from sqlalchemy import text

from pidispatch.domain.breaker import Rules
from pidispatch.domain.run import NewRun
from pidispatch.store.breakercount import PostgresBreakers
from tests.support.asking import asking
from tests.support.submitting import submit as submit_run

RULES = Rules(failures=3, first_backoff=timedelta(minutes=15))
_numbers = count(1)

END = text("""
UPDATE runs SET state = 'ended', outcome = :outcome, reason = :reason, result = 'none', ended_at = clock_timestamp(),
  cause = NULL, not_before = NULL, epoch = epoch + 1
WHERE id = :id
""")


def some_breakers(database, rules=RULES):
    return PostgresBreakers(database, rules=rules, actor="pidispatch@h1")


def a_run_of(database, trigger="nightly", *, type_="cron", name=None, **more):
    """A queued run of a trigger, in a folder of its own; returns its number."""
    number = next(_numbers)
    run_id = submit_run(
        database,
        asking(
            NewRun(
                public_id=name or f"run-{number}",
                folder=b"/repos/x",
                folder_given=b"/repos/x",
                task=b"work",
                task_bytes=4,
                event=b"{}",
                scope=f"folder:/repos/{number}",
                mutex=f"inode:h1:{number}",
                target="local:x",
                pinned_host="h1",
                trigger_type=type_,
                trigger_id=trigger,
            ),
            **more,
        ),
    )
    assert run_id is not None
    return run_id


def end_as(database, run_id, outcome="failed", reason="infra"):
    with database.transaction() as connection:
        connection.execute(END, {"id": run_id, "outcome": outcome, "reason": reason})


def fail(database, trigger="nightly", times=1, reason="infra"):
    for _ in range(times):
        end_as(database, a_run_of(database, trigger), reason=reason)


def open_one(database, trigger="nightly"):
    """A breaker that has just opened."""
    fail(database, trigger, RULES.failures)
    (change,) = some_breakers(database).count().changes
    assert change.opened
    return change
