"""From an admitted run to its record: every way out ends in one state, and leaves nothing."""

import json

import pytest
from sqlalchemy import text

from pidispatch.domain.box.sandbox import LABEL_ATTEMPT, LABEL_INSTALLATION, LABEL_RUN
from pidispatch.domain.providers.calls import CallEnd, Worst
from pidispatch.errors import DiskFull, EngineUnavailable, EntrypointMissing, NameTaken, WrongArchitecture
from tests.flows.site import INSTALLATION
from tests.store.builders import a_run, assert_ledger_is_exact, row, value
from tests.support.calls import opened

END = "SELECT state, outcome, reason, why, exit_code FROM runs WHERE id = :id"


def test_a_started_run_has_a_box_with_its_labels_its_mounts_and_no_secret(site):
    run_id = a_run(site.database, folder="/repos/x", task="do ß\0 it".encode())

    site.started()

    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "running"
    (spec,) = site.boxes.made
    assert spec.name == f"pi-job-{INSTALLATION}-{run_id}-1"
    assert spec.labels[LABEL_INSTALLATION] == INSTALLATION
    assert (spec.labels[LABEL_RUN], spec.labels[LABEL_ATTEMPT]) == (str(run_id), "1")
    assert (spec.uid, spec.gid) == (1000, 1000)
    mounts = {mount.target: (mount.source, mount.read_only) for mount in spec.mounts}
    assert mounts["/workspace"] == ("/repos/x", False)
    assert mounts["/gate"] == (f"/run/g/{run_id}", True)
    assert mounts["/job"][1] is True
    assert set(spec.env) == {
        "PI_PROVIDER", "PI_MODEL", "PI_MAX_TURNS", "PI_JOB_ID", "PI_OFFLINE", "PI_TELEMETRY",
        "PI_SKIP_VERSION_CHECK", "PI_CODING_AGENT_DIR", "PI_DISPATCH_ATTEMPT", "PI_DISPATCH_GATE",
        "PI_DISPATCH_DEADLINE", "PI_DISPATCH_CHAINS", "HOME", "PI_SESSION_FILE",
    }  # fmt: skip
    files = site.files.kept[spec.name]
    assert files["prompt.md"] == "do ß\0 it".encode()
    assert json.loads(files["agent/models.json"])
    assert "env.json" not in files


def test_forwarded_variables_are_a_file_of_the_box_and_no_variable_of_the_container(site):
    a_run(site.database)
    site.launcher._forwarded = {"MY_TOKEN": "worth hiding"}

    site.started()

    (spec,) = site.boxes.made
    assert json.loads(site.files.kept[spec.name]["env.json"]) == {"MY_TOKEN": "worth hiding"}
    assert "worth hiding" not in repr(spec)


def test_a_box_that_ends_well_becomes_a_record_and_leaves_nothing(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    call = opened(site.ledger, run_id, 1, provider="scripted", model="happy", api="openai-completions")
    site.ledger.settle_call(call, CallEnd(200, "stop", tokens_in=10, tokens_out=5))
    site.boxes.finish(
        container, 0, b'{"event":"exit","jobId":"x","code":0,"reason":"completed","turns":99}\n'
    )

    site.finisher.finish(run_id)

    assert row(site.database, "SELECT outcome, turns, tokens_total, exit_code FROM run_history") == {
        "outcome": "completed",
        "turns": 1,
        "tokens_total": 15,
        "exit_code": 0,
    }
    reported = row(site.database, "SELECT reported, report_verified FROM run_attempts")
    assert reported == {
        "reported": {"code": 0, "reason": "completed", "turns": 99},
        "report_verified": False,
    }
    assert site.nothing_is_left()
    assert site.bell.starts == 1
    assert_ledger_is_exact(site.database)


def test_a_box_that_still_runs_is_not_finished(site):
    run_id = a_run(site.database)
    claim, _ = site.started()
    site.go(claim)

    site.finisher.finish(run_id)

    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "running"


@pytest.mark.parametrize(
    ("code", "outcome", "reason"),
    [(3, "failed", "unknown-exit-code"), (137, "failed", "killed"), (2, "policy", "runner-policy")],
)
def test_an_exit_code_is_never_success_but_zero(site, code, outcome, reason):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, code, b'{"event":"exit","jobId":"x","code":0,"reason":"completed"}\n')

    site.finisher.finish(run_id)

    ended = row(site.database, END, id=run_id)
    assert (ended["outcome"], ended["reason"], ended["exit_code"]) == (outcome, reason, code)


@pytest.mark.parametrize(
    ("error", "outcome", "reason", "why"),
    [
        (WrongArchitecture("exec format"), "failed", "container-never-started", "job-image-wrong-arch"),
        (EntrypointMissing("not found"), "failed", "container-never-started", "entrypoint-missing"),
    ],
)
@pytest.mark.parametrize("step", ["create", "start"])
def test_a_box_that_cannot_start_ends_at_once_and_gives_everything_back(
    site, monkeypatch, step, error, outcome, reason, why
):
    run_id = a_run(site.database)
    claim = site.gate.admit()

    def fail(*_):
        raise error

    monkeypatch.setattr(site.boxes, step, fail)
    site.launcher.start(claim)

    ended = row(site.database, END, id=run_id)
    assert (ended["outcome"], ended["reason"], ended["why"]) == (outcome, reason, why)
    assert value(site.database, "SELECT used FROM spend_windows") == 0
    assert value(site.database, "SELECT outcome FROM run_attempts") == "never-started"
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


@pytest.mark.parametrize("step", ["create", "start"])
def test_a_box_that_finds_no_room_on_the_disk_waits_and_gives_everything_back(site, monkeypatch, step):
    run_id = a_run(site.database)
    claim = site.gate.admit()

    def fail(*_):
        raise DiskFull("no space")

    monkeypatch.setattr(site.boxes, step, fail)
    site.launcher.start(claim)

    waits = row(site.database, "SELECT state, cause, outcome FROM runs WHERE id = :id", id=run_id)
    assert waits == {"state": "deferred", "cause": "disk-low", "outcome": None}
    assert value(site.database, "SELECT used FROM spend_windows") == 0
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


def test_an_image_that_vanished_is_a_refusal(site):
    run_id = a_run(site.database)
    claim = site.gate.admit()
    site.boxes.images.clear()

    site.launcher.start(claim)

    ended = row(site.database, END, id=run_id)
    assert (ended["outcome"], ended["reason"]) == ("policy", "job-image-missing")
    assert site.nothing_is_left()


@pytest.mark.parametrize(
    ("part", "cause"), [("boxes", "docker-unreachable"), ("doors", "gateway-unreachable")]
)
def test_a_part_that_stops_answering_sends_the_run_back_unpaid(site, part, cause):
    run_id = a_run(site.database)
    claim = site.gate.admit()
    getattr(site, part).down = True

    site.launcher.start(claim)

    assert row(site.database, "SELECT state, cause FROM runs WHERE id = :id", id=run_id) == {
        "state": "deferred",
        "cause": cause,
    }
    assert value(site.database, "SELECT used FROM spend_windows") == 0
    assert_ledger_is_exact(site.database)


def test_a_name_that_is_taken_is_left_to_whoever_took_it(site, monkeypatch):
    run_id = a_run(site.database)
    claim = site.gate.admit()

    def taken(_):
        raise NameTaken("taken")

    monkeypatch.setattr(site.boxes, "create", taken)
    site.launcher.start(claim)

    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "preparing"


def test_a_start_without_an_answer_is_looked_at_before_it_is_repeated(site, monkeypatch):
    run_id = a_run(site.database)
    claim = site.gate.admit()

    def silent(_):
        raise EngineUnavailable("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(site.boxes, "start", silent)
        site.launcher.start(claim)

    # Taken back: the box was removed, so it cannot start later, and nothing was paid.
    assert row(site.database, "SELECT state, cause FROM runs WHERE id = :id", id=run_id) == {
        "state": "deferred",
        "cause": "docker-unreachable",
    }
    assert site.nothing_is_left()


def test_a_second_finisher_finds_its_epoch_stale_and_writes_nothing(site, monkeypatch):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.boxes.finish(container, 0)
    tail = site.boxes.tail

    def while_another_finishes(*args):
        monkeypatch.setattr(site.boxes, "tail", tail)
        site.finisher.finish(run_id)
        return tail(*args)

    monkeypatch.setattr(site.boxes, "tail", while_another_finishes)
    site.finisher.finish(run_id)

    assert value(site.database, "SELECT count(*) FROM run_history") == 1
    assert_ledger_is_exact(site.database)


def test_a_run_waits_for_its_open_calls_and_a_silent_gateway_is_not_waited_for_for_ever(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    site.ledger.open_call(run_id, 1, provider="p", model="m", api="a")
    site.boxes.finish(container, 1)
    site.doors.down = True

    site.finisher.finish(run_id)
    assert value(site.database, "SELECT state FROM runs WHERE id = :id", id=run_id) == "finishing"

    site.offset = "21 seconds"
    site.finisher.finish(run_id)
    assert row(site.database, END, id=run_id)["reason"] == "infra"
    assert value(site.database, "SELECT state FROM provider_calls") == "assumed"


def test_a_call_that_no_gateway_knows_of_is_assumed_and_keeps_no_run_from_its_end(site):
    run_id = a_run(site.database)
    claim, container = site.started()
    site.go(claim)
    # Committed, and whoever opened it was killed, or lost its connection, before it heard of that.
    site.ledger.open_call(run_id, 1, provider="p", model="m", api="a", worst=Worst(500, 500, 900, 900))
    site.boxes.finish(container, 0)

    site.finisher.finish(run_id)

    assert row(site.database, "SELECT state, cost_micros, tokens_total FROM runs WHERE id = :id", id=run_id) == {
        "state": "ended", "cost_micros": 500, "tokens_total": 0,
    }  # fmt: skip
    assert row(site.database, "SELECT state, measured, cost_class FROM provider_calls") == {
        "state": "assumed", "measured": False, "cost_class": "assumed",
    }  # fmt: skip
    assert site.nothing_is_left()
    assert_ledger_is_exact(site.database)


def test_a_start_that_fails_again_and_again_is_tried_ever_later_and_at_last_told(site):
    run_id = a_run(site.database)
    pauses = []
    for _ in range(30):
        with site.database.transaction() as connection:
            connection.execute(text("UPDATE runs SET not_before = NULL"))
        claim = site.gate.admit()
        site.doors.down = True
        site.launcher.start(claim)
        site.doors.down = False
        pauses.append(
            value(site.database, "SELECT round(extract(epoch FROM not_before - state_since)) FROM runs")
        )

    ended = row(site.database, "SELECT state, reason, why FROM runs WHERE id = :id", id=run_id)
    assert ended == {"state": "ended", "reason": "container-never-started", "why": "too-many-starts"}
    assert pauses[:3] == [3, 6, 9]
    assert max(pauses[:-1]) == 60
    assert_ledger_is_exact(site.database)
