"""Say what is wrong after a fault: by the engine's log, the provider's memory, the disk and the rows."""

from collections.abc import Iterator
from itertools import pairwise

from tests.fault.engine import Event
from tests.fault.house import House
from tests.store.builders import assert_ledger_is_exact

OCCUPYING = "('admitted', 'preparing', 'running', 'stopping', 'finishing')"


def left_behind(house: House) -> list[str]:
    """Whatever exists that no live run stands for. Empty when the house is clean."""
    left = [f"container {line}" for line in house.engine.containers(house.installation)]
    for place in ("run/g", "jobs"):
        folder = house.home / place
        left += [f"{place}/{entry.name}" for entry in folder.iterdir()] if folder.exists() else []
    counts = {
        "occupying runs": f"SELECT count(*) FROM runs WHERE state IN {OCCUPYING}",
        "held calls": "SELECT count(*) FROM provider_calls WHERE state = 'held'",
        "held reservations": "SELECT count(*) FROM reservations WHERE state = 'held'",
    }
    for what, statement in counts.items():
        count = house.value(statement)
        left += [f"{count} {what}"] if count else []
    return left


def problems(house: House, run_id: int, endings: tuple[str, ...]) -> Iterator[str]:
    """What contradicts the promises for one run that has ended. Nothing when all is well."""
    run = house.rows("SELECT * FROM runs WHERE id = :id", id=run_id)[0]
    word = run["reason"] or run["outcome"]
    if word not in endings:
        yield f"it ended {word} ({run['why']}), not {' or '.join(endings)}"
    yield from contradictions(house, run_id)
    yield from ledger_problems(house)


def contradictions(house: House, run_id: int) -> Iterator[str]:
    """Where the engine's log and the provider's memory deny what the rows of one run say."""
    attempts = house.rows("SELECT * FROM run_attempts WHERE run_id = :id ORDER BY attempt", id=run_id)
    yield from boxes_deny(house.engine.events(run_id), attempts)
    yield from _money(house, run_id, attempts)


def ledger_problems(house: House) -> Iterator[str]:
    try:
        assert_ledger_is_exact(house.database)
    except AssertionError as error:
        yield f"the ledger is not exact: {error}"


def boxes_deny(events: list[Event], attempts: list[dict[str, object]]) -> Iterator[str]:
    """A box is started once, boxes of a run never overlap, and those that got their go are the charged attempts."""
    starts = [event for event in events if event.action == "start"]
    if len({event.container for event in starts}) != len(starts):
        yield "a container was started twice"
    for before, after in pairwise(starts):
        # Docker logs no death of a box that ended while dockerd was down; it logs that it was removed.
        until = [
            event.action for event in events if event.container == before.container and event.at <= after.at
        ]
        if not {"die", "destroy"} & set(until):
            yield f"attempts {before.attempt} and {after.attempt} had boxes at the same time, after {until}"
    charged = {attempt["container_id"] for attempt in attempts if attempt["go_at"] is not None}
    if not charged <= {event.container for event in starts}:
        yield "an attempt is charged whose box never started"
    worked = {event.container for event in events if event.action == "die" and event.exit_code in {0, 1, 2}}
    if not worked <= charged:
        yield "a box came to an end of its own without a go"
    if any(attempt["ended_at"] is None for attempt in attempts):
        yield "an attempt has no end"


def _money(house: House, run_id: int, attempts: list[dict[str, object]]) -> Iterator[str]:
    """A run with a charged attempt counts once in each window, another not at all; the provider's calls are rows."""
    charged = any(attempt["go_at"] is not None for attempt in attempts)
    used = house.value(
        "SELECT coalesce(sum(v.counted), 0) FROM reservations v JOIN spend_windows w ON w.id = v.window_id"
        " WHERE v.run_id = :id AND w.unit = 'runs' AND w.period = 'day' AND w.scope = '*'",
        id=run_id,
    )
    if used != int(charged):
        yield f"it counts {used} times in the day's window, with {int(charged)} expected"
    task = (
        f"work in {house.value('SELECT target FROM runs WHERE id = :id', id=run_id).removeprefix('local:')}"
    )
    asked = house.asked_about(task)
    rows = house.rows("SELECT * FROM provider_calls WHERE run_id = :id", id=run_id)
    if len(rows) < len(asked):
        yield f"the provider was asked {len(asked)} times, {len(rows)} calls are recorded"
    measured = sum(row["tokens_in"] for row in rows if row["state"] == "settled" and row["measured"])
    said = sum(call.usage.tokens_in for call in asked if call.usage is not None)
    if measured > said:
        yield f"{measured} tokens are measured, the provider said {said}"
