"""The two pages of a worker, over real services."""

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pidispatch.app import health
from pidispatch.app.installation import Addresses, Installation
from pidispatch.app.monitor import Monitor
from pidispatch.config import load
from pidispatch.domain.health.health import FaultWord
from tests.cli.lives import begin, call, end
from tests.store.builders import a_host, a_run
from tests.support.breaking import open_one
from tests.support.disks import small_disk
from tests.support.wallclock import utc


@pytest.fixture
def monitor(database_url, redis_url, tmp_path):
    """`monitor()` looks at this test's own services, as a worker's would."""
    settings = load(
        {
            "PIDISPATCH_HOME": str(tmp_path),
            "PIDISPATCH_RUN_DIR": "/tmp/pd-no-such-run",
            "PI_WORKER_NAME": "h1",
            "PI_DAILY_COST_USD": "7.5",
            "PI_MAX_COST_USD": "0.5",
        },
        None,
    )

    monitors = []

    def made(database=database_url, redis=redis_url):
        monitors.append(Monitor(Installation(settings, where=Addresses(database, redis))))
        return monitors[-1]

    yield made
    for each in monitors:
        each.close()


def faults(answer):
    return [fault["word"] for fault in json.loads(answer.body)["faults"]]


def read(answer):
    return {
        family.name: {tuple(sorted(each.labels.items())): each.value for each in family.samples}
        for family in text_string_to_metric_families(answer.body.decode())
    }


def test_all_is_well(monitor):
    answer = monitor().healthz()

    assert (answer.status, answer.content_type) == (200, "application/json")
    assert json.loads(answer.body) == {"ok": True, "faults": []}


def test_a_busy_provider_has_a_gauge(monitor, monkeypatch):
    monkeypatch.setattr(Installation, "gateway", AllBusy())
    monkeypatch.setattr(health.os, "access", lambda path, mode: True)

    found = read(monitor().metrics())["pidispatch_provider_busy_seconds"]

    assert set(found) == {
        (("host", "h1"), ("model", ""), ("provider", "anthropic")),
        (("host", "h1"), ("model", "meta/llama"), ("provider", "openrouter")),
    }
    assert min(found.values()) > 1e6


class AllBusy:
    def ready(self, *, seconds):
        return True

    def busy_providers(self, *, seconds):
        return {"anthropic": utc(2099, 1, 1), "openrouter/meta/llama": utc(2099, 1, 1)}


def test_another_schema_is_red_and_its_rows_are_not_read(monitor, database):
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE pidispatch_alembic_version SET version_num = '9999'")
        connection.exec_driver_sql("ALTER TABLE runs RENAME TO other_runs")
    one = monitor()

    answer, metrics = one.healthz(), read(one.metrics())

    assert (answer.status, faults(answer)) == (503, ["schema-differs", "gateway-silent"])
    assert metrics["pidispatch_healthy"] == {(): 0}
    assert metrics["pidispatch_health_red"][("fault", "schema-differs"),] == 1
    assert "pidispatch_runs" not in metrics


def test_services_that_do_not_answer_are_red_together(monitor):
    one = monitor("postgresql+psycopg://nobody@/none?host=/nonexistent", "redis://127.0.0.1:1/0")

    answer = one.healthz()

    assert answer.status == 503
    assert faults(answer) == ["database-silent", "redis-silent", "gateway-silent"]
    assert one.metrics().status == 200


def test_a_redis_that_forgets_is_red(monitor, services):
    assert services.valkey.ask("CONFIG SET maxmemory-policy allkeys-lru") == b"+OK\r\n"
    try:
        assert faults(monitor().healthz()) == ["redis-evicts"]
    finally:
        services.valkey.ask("CONFIG SET maxmemory-policy noeviction")


def test_a_disk_that_is_nearly_full_is_red_and_measured_without_a_database(monitor, tmp_path):
    with small_disk(tmp_path) as disk:
        disk.fill()
        one = monitor("postgresql+psycopg://nobody@/none?host=/nonexistent")

        answer, metrics = one.healthz(), read(one.metrics())

    assert "disk-low" in faults(answer)
    assert metrics["pidispatch_disk_free_bytes"][("host", "h1"), ("place", "the home")] == 0
    assert metrics["pidispatch_disk_size_bytes"][("host", "h1"), ("place", "the home")] == 256 * 1024


def test_the_database_coming_back_is_well_again(monitor, database_url, services):
    one = monitor()
    assert one.look().health.ok
    with services.administrator() as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'pidispatch health'"
        )

    assert one.look().health.ok


def test_a_metric_for_everything_that_counts(monitor, database):
    a_host(database)
    a_run(database)
    claim = begin(database)
    call(database, claim, tokens_in=100, tokens_out=10)
    end(database, claim)
    a_run(database)
    begin(database, "1" * 64)
    a_run(database)

    found = read(monitor().metrics())

    assert found["pidispatch_runs"][("state", "running"),] == 1
    assert found["pidispatch_runs"][("state", "queued"),] == 1
    assert found["pidispatch_runs_waiting"] == {(("cause", "waiting-for-a-worker"),): 1}
    assert found["pidispatch_runs_ended_today"] == {(("outcome", "completed"), ("reason", "completed")): 1}
    assert found["pidispatch_tokens_settled_today"][("kind", "input"),] == 100
    assert found["pidispatch_calls_held"] == {(): 0}
    assert found["pidispatch_slots_used"] == {(("host", "h1"),): 1}
    assert found["pidispatch_slots"] == {(("host", "h1"),): 3}
    assert found["pidispatch_workers"] == {(("host", "h1"),): 1}
    assert found["pidispatch_window_used_runs"] == {(("period", "day"), ("scope", "*")): 2}
    assert found["pidispatch_window_cap_runs"] == {(("period", "day"), ("scope", "*")): 25}
    assert found["pidispatch_window_cap_dollars"] == {(("period", "day"), ("scope", "*")): 7.5}
    assert found["pidispatch_window_used_tokens"] == {}
    assert found["pidispatch_disk_free_bytes"][("host", "h1"), ("place", "the home")] > 0
    assert {label[0][1] for label in found["pidispatch_health_red"]} == set(FaultWord)
    assert found["pidispatch_health_red"][("fault", "gateway-silent"),] == 1


def test_a_trigger_that_is_held_back_has_its_metric_and_makes_nothing_red(monitor, database):
    open_one(database)
    one = monitor()

    found = read(one.metrics())

    assert found["pidispatch_breakers_open"] == {(): 1}
    assert found["pidispatch_breaker_failures"] == {(("reason", "infra"), ("trigger", "nightly")): 3}
    assert faults(one.healthz()) == []


def test_a_scrape_just_after_another_asks_nothing(monitor):
    one = monitor()
    looks = []
    look = one._look._find
    one._look._find = lambda: looks.append(1) or look()
    one._look._fresh = 60

    for _ in range(5):
        one.healthz()
        one.metrics()

    assert looks == [1]
