"""Runs for tests, made through the same doors as real ones."""

from itertools import count

from sqlalchemy import text

from pidispatch.domain.ask import Terms
from pidispatch.domain.hostidentity import Identity
from pidispatch.domain.limits import EVERYTHING, Cap, run_caps
from pidispatch.domain.run import Claim, NewRun
from pidispatch.domain.triggers import WaitAfter, WaitProfile
from pidispatch.ports import Admitted, Answer, Ready
from pidispatch.store.admission import PostgresAdmissions
from pidispatch.store.database import Database
from pidispatch.store.hosts import PostgresHosts
from pidispatch.store.runs import PostgresRuns
from tests.support.asking import asking, finding
from tests.support.submitting import submit as submit_run

HOST = "h1"
WORKER = "h1:1"
IDENTITY = Identity("ENGINE", "boot/run")
_numbers = count(1)


def some_caps(daily: int = 25) -> tuple[Cap, ...]:
    return run_caps(EVERYTHING, day=daily, week=None, month=None)


def a_host(database: Database, capacity: int = 3, host: str = HOST) -> str:
    installation = PostgresHosts(database, host=host).register(
        worker=f"{host}:1", pid=1, version="0", capacity=capacity, identity=IDENTITY
    )
    assert isinstance(installation, str), installation
    return installation


def a_run(
    database: Database,
    *,
    folder: str | None = None,
    priority: int = 0,
    task: bytes = b"work",
    **more: object,
) -> int:
    number = next(_numbers)
    folder = folder or f"/repos/r{number}"
    run = NewRun(
        public_id=f"local-{number}",
        folder=folder.encode(),
        folder_given=folder.encode(),
        task=task,
        task_bytes=len(task),
        event=b"{}",
        scope=f"folder:{folder}",
        mutex=f"inode:{HOST}:{folder}",
        target=f"local:{folder.rsplit('/', 1)[-1]}",
        pinned_host=HOST,
    )
    run_id = submit_run(database, asking(run, priority=priority, **more))
    assert run_id is not None
    return run_id


def a_held_run(
    database: Database, *wait_for: WaitAfter | WaitProfile, key: str | None = None, **more: object
) -> int:
    """A run that waits for something named, not looked at yet."""
    number = next(_numbers)
    run = NewRun(
        public_id=f"local-{number}",
        folder=b"/repos/held",
        folder_given=b"/repos/held",
        task=b"work",
        task_bytes=4,
        event=b"{}",
        scope=f"folder:/repos/held{number}",
        target=f"acme/web#{number}",
        pinned_host=HOST,
        wait_for=wait_for,
        wait_key=key,
    )
    run_id = submit_run(database, asking(run, **more))
    assert run_id is not None
    return run_id


def ready_for(database: Database, run_id: int, caps: tuple[Cap, ...] | None = None, **more: object) -> Ready:
    mutex = value(database, "SELECT mutex FROM runs WHERE id = :id", id=run_id)
    ready = Ready(
        terms=Terms("scripted", "happy", "pi-job:test", max_turns=30),
        image_id="sha256:1",
        engine_id="ENGINE",
        mutex=str(mutex),
        caps=some_caps() if caps is None else caps,
        capacity=int(str(value(database, "SELECT capacity FROM hosts WHERE name = :host", host=HOST))),
        concurrent={},
        project=None,
        facts={"gates": {}},
    )
    return finding(ready, **more)


def after_a_look(database):
    """The moment is over for which a run that was looked at is passed over."""
    with database.transaction() as connection:
        connection.execute(text("UPDATE runs SET looked_at = looked_at - interval '3 seconds'"))


def try_next(
    database: Database, caps: tuple[Cap, ...] | None = None, **more: object
) -> tuple[int, Answer] | None:
    admissions = PostgresAdmissions(database, host=HOST, worker=WORKER)
    waiting = admissions.next_due([])
    if waiting is None:
        return None
    return waiting.run_id, admissions.admit(waiting, ready_for(database, waiting.run_id, caps, **more))


def an_admitted_run(database: Database, **asked: object) -> Claim:
    a_run(database, **asked)  # type: ignore[arg-type]
    found = try_next(database)
    assert found is not None
    assert isinstance(found[1], Admitted), found
    return found[1].claim


def a_boxed_run(database: Database, container: str = "c0ffee" * 10, **asked: object) -> Claim:
    runs = PostgresRuns(database)
    job = runs.preparing(an_admitted_run(database, **asked))
    return runs.boxed(job.claim, container_id=container, name=f"box-{job.claim.run_id}")


def value(database: Database, statement: str, **values: object) -> object:
    with database.transaction() as connection:
        return connection.execute(text(statement), values).scalar_one()


def row(database: Database, statement: str, **values: object) -> dict[str, object]:
    with database.transaction() as connection:
        return dict(connection.execute(text(statement), values).mappings().one())


def assert_ledger_is_exact(database: Database) -> None:
    """used = sum of reservations, and occupied = runs in an occupying state."""
    with database.transaction() as connection:
        drift = connection.execute(
            text(
                "SELECT w.id FROM spend_windows w LEFT JOIN reservations v ON v.window_id = w.id"
                " GROUP BY w.id HAVING w.used <> coalesce(sum(v.counted), 0)"
            )
        ).all()
        slots = connection.execute(
            text(
                "SELECT s.key FROM scopes s WHERE s.occupied <> (SELECT count(*) FROM runs r"
                " WHERE s.key IN (r.scope, r.mutex, 'project:' || r.project) AND r.state IN"
                " ('admitted','preparing','running','stopping','finishing'))"
            )
        ).all()
    assert drift == []
    assert slots == []
