"""`run.priority` of the triggers file decides which run starts first."""

import json
from datetime import timedelta

from sqlalchemy import text

from pidispatch.domain.limits.admission import Admitted
from pidispatch.domain.triggers.grammar.file import parse_triggers
from pidispatch.domain.triggers.inforce import standing_of
from tests.store.builders import a_host, a_run, try_next, value
from tests.support.timed import UTC_EVERYWHERE, the_schedules
from tests.support.wallclock import utc

MONDAY = utc(2026, 5, 4)


def content(**priorities):
    entries = [
        {
            "on": {"type": "cron", "id": name, "pattern": "0 3 * * *", "tz": "UTC"},
            "run": {
                "kind": "local",
                "folder": f"/repos/{name}",
                "flow": "tidy",
                "task": "x",
                "priority": priority,
            },
        }
        for name, priority in priorities.items()
    ]
    return json.dumps({"triggers": entries}).encode()


def test_the_priority_of_an_entry_reaches_its_run_and_its_place_in_line(database):
    a_host(database)
    by_hand = a_run(database, priority=1)
    schedules = the_schedules(database)
    known = standing_of(parse_triggers(content(low=-5, none=0, high=50), "triggers.json"), UTC_EVERYWHERE)
    schedules.sync(lambda: known, MONDAY)
    schedules.plan(known, MONDAY + timedelta(hours=3))

    with database.transaction() as connection:
        line = connection.execute(
            text("SELECT trigger_type, trigger_id, priority, cause FROM why_waiting ORDER BY place")
        ).all()
    assert [tuple(each) for each in line] == [
        ("cron", "high", 50, "waiting-for-a-worker"),
        ("cli", None, 1, "waiting-for-a-worker"),
        ("cron", "none", 0, "waiting-for-a-worker"),
        ("cron", "low", -5, "waiting-for-a-worker"),
    ]
    run_id, answer = try_next(database)
    assert isinstance(answer, Admitted)
    assert value(database, "SELECT trigger_id FROM runs WHERE id = :id", id=run_id) == "high"
    assert try_next(database)[0] == by_hand
