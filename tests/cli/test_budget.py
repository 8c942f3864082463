"""`budget`: each window with its numbers, and who holds what in it."""

from datetime import date, datetime, timedelta

import pytest

from pidispatch.app.verbs import queue
from pidispatch.domain.limits.policy import Policy, ScopeCaps
from pidispatch.domain.limits.windows import Cap, Period, Unit
from pidispatch.entrypoints.cli.wording import amount, window_name
from tests.cli.lives import begin, end
from tests.cli.test_runs import name_of
from tests.store.builders import a_host, a_run, some_caps, try_next

WINDOW = [
    "scope", "name", "unit", "period", "starts_on", "resets_at", "used", "cap", "held", "settled", "assumed", "state",
    "holders", "held_by",
]  # fmt: skip
POLICY = Policy(
    provider="scripted",
    model="happy",
    image="pi-job:latest",
    max_turns=30,
    max_tokens=None,
    concurrency=3,
    daily_cap=2,
    soft_hold_pct=50,
    daily_token_cap=1_000_000,
    max_cost_micros=250_000,
    monthly_micros=1_500_000,
    by_scope={"folder:/repos/web": ScopeCaps(week=4)},
    names={"folder:/repos/web": "/repos/web"},
)


@pytest.fixture
def policy(monkeypatch):
    """`policy(…)` puts a policy, or a refusal of one, in force."""

    def put(value):
        monkeypatch.setattr(queue.FilePolicies, "current", lambda self: value)
        return value

    return put


def test_a_program_gets_every_window_with_keys_that_stay(pidispatch, database):
    a_run(database)
    claim = begin(database)

    found = pidispatch("budget", "--json").document

    assert list(found) == ["at", "windows"]
    today = date.fromisoformat(found["at"][:10])
    assert [list(window) for window in found["windows"]] == [WINDOW]
    assert found["windows"][0] == {
        "scope": "*",
        "name": "*",
        "unit": "runs",
        "period": "day",
        "starts_on": today.isoformat(),
        "resets_at": f"{today + timedelta(days=1)}T00:00:00+00:00",
        "used": 1,
        "cap": 25,
        "held": 1,
        "settled": 0,
        "assumed": 0,
        "state": "ok",
        "holders": 1,
        "held_by": [name_of(database, claim.run_id)],
    }


def test_windows_of_every_unit_and_scope_are_shown_by_the_names_people_gave(pidispatch, policy, database):
    policy(POLICY)
    a_host(database)
    a_run(database)
    end(database, begin(database))
    a_run(database, folder="/repos/web")
    money = Cap("*", Unit.MICROS, Period.MONTH, 1_500_000, 250_000)
    run_id, _ = try_next(
        database, (Cap("folder:/repos/web", Unit.RUNS, Period.WEEK, 4), *some_caps(2), money)
    )

    said = pidispatch("budget").out
    windows = pidispatch("budget", "--json").document["windows"]

    name = name_of(database, run_id)
    assert [line.split("  ")[0] for line in said.splitlines()] == [
        "window", "runs a day", "tokens a day", "dollars a month", "runs a week for /repos/web",
    ]  # fmt: skip
    assert [(each["used"], each["cap"], each["held"], each["state"]) for each in windows] == [
        (2, 2, 1, "soft-hold"),
        (0, 1_000_000, 0, "ok"),
        (250_000, 1_500_000, 250_000, "ok"),
        (1, 4, 1, "ok"),
    ]
    month = said.splitlines()[3].split()
    assert month[3:6] == ["$0.25", "$1.50", "$0.25"]
    assert month[-1] == name
    monday = datetime.fromisoformat(windows[3]["resets_at"])
    assert (monday.isoweekday(), monday.hour, monday.utcoffset()) == (1, 0, timedelta(0))


def test_at_most_twenty_runs_are_named(pidispatch, database):
    a_host(database, capacity=30)
    names = []
    for _ in range(23):
        run_id = a_run(database)
        try_next(database)
        names.append(name_of(database, run_id))

    window = pidispatch("budget", "--json").document["windows"][0]

    assert (window["holders"], window["held_by"]) == (23, names[:20])
    assert f"{names[19]} and 3 more" in pidispatch("budget").out


@pytest.mark.parametrize(
    ("name", "setting", "content", "problem"),
    [
        ("settings.json", "PI_SETTINGS_FILE", '{"dailyCap": 0}', "dailyCap"),
        ("scoped-limits.json", "PI_SCOPED_LIMITS_FILE", "{", "scoped-limits.json"),
        ("pause-windows.json", "PI_PAUSE_WINDOWS_FILE", "[]", "pause-windows.json"),
    ],
)
def test_limits_that_cannot_be_read_are_said(pidispatch, bare, tmp_path, name, setting, content, problem):
    (tmp_path / name).write_text(content)
    bare.setenv(setting, str(tmp_path / name))

    for arguments in (("budget",), ("budget", "--json")):
        said = pidispatch(*arguments)
        assert (said.code, said.out) == (1, "")
        assert said.err.startswith("pidispatch: the limits cannot be read: ")
        assert problem in said.err


def test_amounts_are_counts_or_dollars():
    assert [amount("micros", n) for n in (0, 1, 10_000, 1_500_000, 12_345_678_901)] == [
        "$0.00", "$0.000001", "$0.01", "$1.50", "$12,345.678901",
    ]  # fmt: skip
    assert amount("tokens", 1_000_000) == "1,000,000"
    assert window_name("*", "micros", "month") == "dollars a month"
