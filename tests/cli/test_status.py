"""`status`: the truth about the queue."""

from tests.cli.lives import begin, call, end
from tests.store.builders import a_host, a_run
from tests.support.engines import scripted_engine

KEYS = [
    "at", "states", "causes", "ended_today", "paused_since", "stopped_since", "paused", "workers", "hosts", "held_calls", "windows",
    "breakers", "file_problems", "busy_providers", "health",
]  # fmt: skip
STATES = ["queued", "deferred", "held", "admitted", "preparing", "running", "stopping", "finishing"]


def test_an_empty_queue_says_that_nobody_works(pidispatch):
    said = pidispatch("status")

    assert said.code == 0
    assert "workers           none: start `pidispatch up` or `pidispatch worker`\n" in said.out


def test_a_program_gets_keys_that_stay(pidispatch, database):
    a_host(database)
    for _ in range(2):
        a_run(database)
    claim = begin(database)
    call(database, claim)

    found = pidispatch("status", "--json").document

    assert list(found) == KEYS
    assert list(found["states"]) == STATES
    assert (found["states"]["running"], found["states"]["queued"]) == (1, 1)
    assert found["causes"] == {"waiting-for-a-worker": 1}
    assert list(found["workers"][0]) == ["id", "host", "pid", "version", "started_at", "heartbeat_at"]
    host = found["hosts"][0]
    assert list(host) == [
        "name",
        "capacity",
        "used",
        "workers",
        "engine_id",
        "heartbeat_at",
        "reconciled_at",
        "unreachable",
    ]
    assert (host["name"], host["capacity"], host["used"], host["workers"]) == ("h1", 3, 1, 1)
    assert found["windows"] == [
        {
            "scope": "*",
            "unit": "runs",
            "period": "day",
            "starts_on": found["at"][:10],
            "used": 1,
            "held": 1,
            "settled": 0,
            "resets_at": found["windows"][0]["resets_at"],
            "cap": 25,
            "state": "ok",
        }
    ]


def test_only_capped_windows_are_shown_with_their_state(pidispatch, bare, database):
    bare.setenv("PI_DAILY_CAP", "2")
    bare.setenv("PI_MONTHLY_CAP", "100")
    bare.setenv("PI_SOFT_HOLD_PCT", "50")
    for _ in range(2):
        a_run(database)
        end(database, begin(database, f"{_:064x}"))

    windows = pidispatch("status", "--json").document["windows"]

    assert [(each["period"], each["cap"]) for each in windows] == [("day", 2), ("month", 100)]
    assert (windows[0]["used"], windows[0]["settled"], windows[0]["state"]) == (2, 2, "soft-hold")
    assert "2 completed" in pidispatch("status").out


def test_pauses_are_said(pidispatch, database):
    a_run(database)
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE scopes SET paused_at = now(), paused_by = 'somebody' WHERE key = '*'"
        )

    found = pidispatch("status", "--json").document

    since = found["paused_since"]
    assert found["paused"] == [
        {"scope": "*", "paused_at": since, "paused_by": "somebody", "stopped_at": None}
    ]
    assert "queue             paused since 2" in pidispatch("status").out


def test_an_open_model_call_is_counted(pidispatch, database):
    a_run(database)
    claim = begin(database)
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "INSERT INTO provider_calls (run_id, attempt, host, provider, model, api)"
            f" VALUES ({claim.run_id}, 1, 'h1', 'scripted', 'happy', 'openai-completions')"
        )

    assert pidispatch("status", "--json").document["held_calls"] == 1


def test_an_edit_that_is_not_in_force_is_told(pidispatch, bare, tmp_path):
    file = tmp_path / "settings.json"
    file.write_text('{"dailyCap": 0}')

    bare.setenv("PI_SETTINGS_FILE", str(file))

    said = pidispatch("status")

    assert said.code == 0
    assert "not in force: " in said.out
    assert "dailyCap" in said.out


def test_a_busy_provider_is_said(pidispatch, bare, short_directory):
    until = "2099-01-02T03:04:05+00:00"
    bare.setenv("PIDISPATCH_RUN_DIR", str(short_directory))
    with scripted_engine(
        short_directory / "gateway.sock", {"GET /providers": (200, {"busy": {"anthropic": until}})}
    ):
        found = pidispatch("status", "--json").document
        said = pidispatch("status").out

    assert found["busy_providers"] == {"anthropic": until}
    assert "provider anthropic busy until 2099-01-02 03:04:05" in said


def test_what_is_red_is_said_and_only_check_fails_for_it(pidispatch, database):
    a_host(database)
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE workers SET started_at = now() - interval '1 hour'")

    said = pidispatch("status")
    found = pidispatch("status", "--json")

    words = [fault["word"] for fault in found.document["health"]["faults"]]
    assert (said.code, found.code) == (0, 0)
    assert words == ["gateway-silent", "not-reconciled"]
    assert found.document["health"]["ok"] is False
    assert list(found.document["health"]["faults"][0]) == ["word", "sentence", "way_out"]
    assert "health            2 red\nred: gateway-silent: no gateway answers as ready on h1" in said.out
    assert pidispatch("status", "--check").code == 1


def test_a_queue_without_faults_passes_the_check(pidispatch):
    said = pidispatch("status", "--check")

    assert said.code == 0
    assert "health            ok\n" in said.out


def test_a_redis_that_does_not_answer_is_red(pidispatch, bare):
    bare.setenv("REDIS_URL", "redis://127.0.0.1:1/0")

    found = pidispatch("status", "--json", "--check")

    assert found.code == 1
    assert [fault["word"] for fault in found.document["health"]["faults"]] == ["redis-silent"]


def test_without_a_redis_to_ask_the_rest_is_told(pidispatch, bare):
    bare.delenv("REDIS_URL")

    assert pidispatch("status", "--check").code == 0


def test_a_triggers_file_that_is_not_in_force_is_said(pidispatch, bare, tmp_path):
    (tmp_path / "broken.json").write_text('{"triggers": [{}]}')
    bare.setenv("PI_TRIGGERS_FILE", str(tmp_path / "broken.json"))

    said = pidispatch("status")

    assert said.code == 0
    assert f"not in force: {tmp_path}/broken.json:1: triggers[0]: on must be an object; " in said.out
    assert len(pidispatch("status", "--json").document["file_problems"]) == 1
