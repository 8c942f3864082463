"""`doctor`: a healthy installation is ok in every line; each fault is found, named, and hides no other."""

import re
import shutil
from contextlib import ExitStack
from functools import partial

import pytest

from pidispatch.app.checkup import boxes as boxcheck
from pidispatch.domain.box.sandbox import (
    LABEL_ATTEMPT,
    LABEL_INSTALLATION,
    LABEL_ROLE,
    LABEL_RUN,
    ROLE_GIT,
    ROLE_JOB,
)
from pidispatch.runtime.engine import Engine
from pidispatch.store import migrating
from pidispatch.store.hosts.hosts import Hosts
from pidispatch.store.runs.transitions import Runs
from tests.cli.lives import begin, call, end
from tests.fakes.boxes import FakeBoxes
from tests.store.builders import HOST, a_host, a_run, value
from tests.support.engines import scripted_engine
from tests.support.timed import Folders, an_entry, synced, the_schedules
from tests.support.wallclock import utc

ENVIRONMENT = [
    "limits",
    "triggers",
    "prices",
    "egress",
    "disks",
    "ballast",
    "redis",
    "engine",
    "image",
    "gateway",
    "provider",
    "model",
    "schema",
]
ROWS = [
    "windows", "scopes", "folders", "slots", "ended runs", "reservations", "charges", "open calls", "call sums",
    "costs", "late figures", "run caps", "one-shots", "attempts", "payloads", "waits", "worker", "reconciler",
]  # fmt: skip
BOXES = ["boxes of runs", "runs of boxes"]
IMAGE = {
    "Id": "sha256:1",
    "Architecture": "amd64",
    "Config": {
        "Labels": {
            "dev.pi-dispatch.pi-version": "1.6.0",
            "dev.pi-dispatch.capabilities": "report,excludeTools,anyUid,replicas,ownInit",
        }
    },
}


class Surroundings:
    """A scripted engine and gateway; `engine` and `gateway` map a place to what they answer."""

    def __init__(self, folder):
        self.folder = folder
        self.engine = {
            "GET /version": (200, {"ApiVersion": "1.41", "MinAPIVersion": "1.12", "Arch": "amd64"}),
            "GET /info": (200, {"ID": "ENGINE-ENGINE-ENGINE"}),
            "GET /images/pi-job:latest/json": (200, IMAGE),
            "GET /containers/json": (200, {}),
        }
        self.gateway = {
            "GET /healthz": (200, {"ready": True}),
            "GET /providers/anthropic": (
                200,
                {
                    "name": "anthropic",
                    "api": "anthropic-messages",
                    "known_to_pi": True,
                    "credential": True,
                    "rating": "priced",
                    "key_source": "ANTHROPIC_API_KEY",
                },
            ),
        }
        self.containers = []

    def has(self, container_id, *, status="running", role=ROLE_JOB, **labels):
        self.containers.append(container_id)
        self.engine[f"GET /containers/{container_id}/json"] = (
            200,
            {
                "Id": container_id,
                "Name": f"/box-{container_id[:4]}",
                "State": {"Status": status},
                "Config": {"Labels": {LABEL_INSTALLATION: "0badcafe", LABEL_ROLE: role, **labels}},
            },
        )


@pytest.fixture
def around(short_directory, bare):
    """What is outside. The list of containers is an object's: a list of this server's would be a stream."""
    return Surroundings(short_directory)


@pytest.fixture
def doctor(pidispatch, around, bare, database):
    """`doctor()` runs the command beside a worker that has just compared rows with containers."""
    a_host(database)
    bare.setenv("PIDISPATCH_RUN_DIR", str(around.folder))
    bare.setattr(boxcheck, "PATIENCE", 0.0)
    with ExitStack() as stack:
        stack.enter_context(scripted_engine(around.folder / "gateway.sock", around.gateway))
        stack.enter_context(scripted_engine(around.folder / "docker.sock", around.engine))
        bare.setattr(
            "pidispatch.runtime.dockerruntime.Engine",
            lambda **_: Engine(f"unix://{around.folder}/docker.sock"),
        )

        def run(*arguments):
            listed = [{"Id": container_id} for container_id in around.containers]
            around.engine["GET /containers/json"] = (200, Listed(listed))
            Hosts(database, host=HOST).bells_due()
            return pidispatch("doctor", *arguments)

        yield run


class Listed(tuple):
    """JSON's list, which the scripted engine would stream."""

    __slots__ = ()


def graded(said):
    return {finding["check"]: finding["grade"] for finding in said.document["findings"]}


def failures(said):
    return {each["check"]: each["detail"] for each in said.document["findings"] if each["grade"] == "FAILED"}


def test_a_healthy_installation_is_ok_in_every_line(doctor, database, around):
    a_run(database)
    claim = begin(database)
    call(database, claim)
    end(database, claim)
    a_run(database)
    claim = begin(database, "d" * 64)
    around.has("d" * 64, **{LABEL_RUN: str(claim.run_id), LABEL_ATTEMPT: "1"})
    around.has("e" * 64, role=ROLE_GIT)

    said = doctor("--json")

    assert said.code == 0
    assert list(said.document) == ["failed", "warnings", "findings"]
    assert list(said.document["findings"][0]) == ["check", "grade", "detail", "way_out"]
    assert list(graded(said)) == [*ENVIRONMENT, *ROWS, *BOXES]
    warned = {check for check, grade in graded(said).items() if grade != "ok"}
    assert warned <= {"redis"}  # the tests' own server keeps no file


def test_a_person_sees_a_line_for_each_check_and_the_way_out(doctor, database):
    a_run(database)
    begin(database)
    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE spend_windows SET used = 7")

    said = doctor()

    assert said.code == 1
    assert "ok       engine: answers as ENGINE-ENGIN\n" in said.out
    assert "FAILED   windows: runs of *, day from 2" in said.out
    assert "used is 7, its reservations are 1\n         keep the database as it is" in said.out
    assert said.out.splitlines()[-1].startswith("33 checks: 2 failed")


def test_rows_and_containers_that_do_not_match_are_named(doctor, database, around):
    a_run(database)
    missing = begin(database)
    a_run(database)
    over = begin(database, "d" * 64)
    around.has("d" * 64, status="exited", **{LABEL_RUN: str(over.run_id), LABEL_ATTEMPT: "1"})
    around.has("f" * 64, **{LABEL_RUN: "4711", LABEL_ATTEMPT: "1"})

    said = doctor("--json")

    assert said.code == 1
    assert failures(said) == {
        "boxes of runs": (
            f"{missing.public_id} is running and has no container; "
            f"{over.public_id} is running, but box-dddd has ended"
        ),
        "runs of boxes": "box-ffff (ffffffffffff) belongs to no run that is going on",
    }


def test_a_difference_that_goes_away_is_none(database):
    a_run(database)
    claim = begin(database)
    look = partial(boxcheck.check_boxes, FakeBoxes(), Runs(database), host=HOST, installation="0badcafe")
    assert [found.grade for found in look(sleep=lambda _: None)] == ["FAILED", "ok"]

    found = list(look(sleep=lambda _: end(database, claim)))

    assert [each.grade for each in found] == ["ok", "ok"]


def test_nobody_at_work_is_a_failure_with_the_way_out(doctor, database):
    with database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM workers")

    said = doctor()

    assert said.code == 1
    assert "FAILED   worker: no worker lives on h1" in said.out
    assert "start `pidispatch up`" in said.out


def test_a_reconciler_that_sleeps_is_a_failure(pidispatch, database):
    a_host(database)
    with database.transaction() as connection:
        connection.exec_driver_sql(
            "UPDATE hosts SET reconciled_at = clock_timestamp() - interval '31 seconds'"
        )

    said = failures(pidispatch("doctor", "--json"))["reconciler"]
    assert re.fullmatch(r"rows and containers were compared 3\d s ago", said)


def test_a_pause_is_a_warning(doctor, pidispatch):
    pidispatch("pause")

    said = doctor("--json")

    assert (said.code, graded(said)["pauses"]) == (0, "warning")


def test_no_fault_hides_another(command, bare, redis_url, tmp_path):
    bare.setenv("DATABASE_URL", "postgresql://u:hunter2-s3cret@/d?host=/nonexistent")
    bare.setenv("REDIS_URL", "redis://127.0.0.1:1")
    bare.setattr("pidispatch.runtime.dockerruntime.Engine", lambda **_: Engine("tcp://127.0.0.1:1"))
    (tmp_path / "overlay.json").write_text('{"dailyCap": 0}')
    bare.setenv("PI_SETTINGS_FILE", str(tmp_path / "overlay.json"))

    said = command("doctor", "--json")

    assert said.code == 1
    assert list(failures(said)) == ["limits", "redis", "engine", "gateway", "schema"]
    assert "hunter2-s3cret" not in said.out + said.err
    assert failures(said)["schema"].startswith("Postgres does not answer")
    assert "dailyCap" in failures(said)["limits"]


@pytest.mark.parametrize("setting", ["PI_SCOPED_LIMITS_FILE", "PI_PROJECTS_FILE", "PI_PAUSE_WINDOWS_FILE"])
def test_a_file_of_limits_that_is_broken_is_a_failure(pidispatch, bare, tmp_path, setting):
    (tmp_path / "broken.json").write_text("{")
    bare.setenv(setting, str(tmp_path / "broken.json"))

    assert "broken.json" in failures(pidispatch("doctor", "--json"))["limits"]


def test_a_triggers_file_that_is_broken_is_a_failure(pidispatch, bare, tmp_path):
    (tmp_path / "broken.json").write_text("{")
    bare.setenv("PI_TRIGGERS_FILE", str(tmp_path / "broken.json"))

    assert "broken.json" in failures(pidispatch("doctor", "--json"))["triggers"]


def test_a_prices_file_that_is_broken_is_a_failure(pidispatch, bare, tmp_path):
    (tmp_path / "broken.json").write_text("{")
    bare.setenv("PIDISPATCH_PRICES_FILE", str(tmp_path / "broken.json"))

    assert "broken.json" in failures(pidispatch("doctor", "--json"))["prices"]


def test_a_schedule_is_looked_after_or_that_is_said(pidispatch, database):
    a_host(database)
    folders = Folders()
    schedules = the_schedules(database, folders=folders)
    synced(schedules, utc(2026, 5, 4), an_entry())
    assert graded(pidispatch("doctor", "--json"))["schedules"] == "ok"

    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE schedules SET served = false")
    assert graded(pidispatch("doctor", "--json"))["schedules"] == "warning"

    with database.transaction() as connection:
        connection.exec_driver_sql("UPDATE hosts SET heartbeat_at = now() - interval '2 minutes'")
    assert "nightly of h1" in failures(pidispatch("doctor", "--json"))["schedules"]


def test_a_schema_that_is_behind_is_a_failure_and_its_rows_are_left_alone(pidispatch, database):
    migrating.downgrade(database, "base")

    said = pidispatch("doctor", "--json")

    assert said.code == 1
    assert failures(said)["schema"].startswith("behind: at no revision")
    assert "windows" not in graded(said)


@pytest.mark.parametrize(
    ("break_it", "check", "grade"),
    [
        (lambda around: around.engine.pop("GET /images/pi-job:latest/json"), "image", "FAILED"),
        (
            lambda around: around.engine.update(
                {"GET /images/pi-job:latest/json": (200, IMAGE | {"Architecture": "arm64"})}
            ),
            "image",
            "FAILED",
        ),
        (
            lambda around: around.engine.update(
                {"GET /images/pi-job:latest/json": (200, IMAGE | {"Config": {}})}
            ),
            "image",
            "warning",
        ),
        (
            lambda around: around.gateway.update({"GET /healthz": (200, {"ready": False})}),
            "gateway",
            "FAILED",
        ),
        (lambda around: around.gateway.pop("GET /providers/anthropic"), "provider", "warning"),
        (lambda around: around.engine.pop("GET /info"), "engine", "FAILED"),
        (
            lambda around: around.gateway.update(
                {"GET /providers": (200, {"busy": {"anthropic": "2099-01-02T03:04:05+00:00"}})}
            ),
            "pressure",
            "warning",
        ),
    ],
)
def test_each_part_outside_is_looked_at(doctor, around, break_it, check, grade):
    break_it(around)

    said = doctor("--json")

    assert graded(said)[check] == grade
    assert next(each for each in said.document["findings"] if each["check"] == check)["way_out"]


def told(said, check):
    return next(each for each in said.document["findings"] if each["check"] == check)


def test_a_provider_is_told_with_the_name_of_its_key(doctor):
    said = told(doctor("--json"), "provider")

    assert said["detail"] == "anthropic by anthropic-messages; its key is from ANTHROPIC_API_KEY"


@pytest.mark.parametrize(
    ("lacks", "words"),
    [
        ("no-key", "the gateway has no key for it"),
        ("oauth-login", "the gateway has no key for it: pi is logged in by OAuth, which is no API key"),
        (
            "key-command",
            "the gateway has no key for it: pi's auth.json names a command, which is not run here",
        ),
    ],
)
def test_a_key_that_is_missing_is_told_with_its_reason(doctor, around, lacks, words):
    around.gateway["GET /providers/anthropic"][1].update(credential=False, lacks=lacks)

    said = told(doctor("--json"), "provider")

    assert (said["grade"], said["detail"]) == ("warning", f"anthropic: {words}")
    assert "ANTHROPIC_API_KEY" in said["way_out"]


@pytest.mark.parametrize(
    ("facts", "grade"),
    [
        ({}, "warning"),
        ({"model_listed": True}, "ok"),
        ({"known_to_pi": False}, "ok"),
        ({"rating": "free"}, "ok"),
    ],
)
def test_a_model_that_nobody_knows_is_a_warning(doctor, around, facts, grade):
    around.gateway["GET /providers/anthropic"][1].update({"rating": "unknown", **facts})

    assert told(doctor("--json"), "model")["grade"] == grade


def test_a_providers_file_that_a_gateway_would_refuse_is_a_failure(doctor, bare, tmp_path):
    file = tmp_path / "providers.json"
    bare.setenv("PIDISPATCH_PROVIDERS_FILE", str(file))

    assert failures(doctor("--json"))["providers file"].startswith(f"not in force: {file}: does not exist; ")
    file.write_text('{"version": 1, "providers": {"groq": {"slots": 2}}}')
    assert told(doctor("--json"), "providers file")["grade"] == "ok"


def test_a_gateway_that_is_not_there_is_a_failure(pidispatch, around):
    shutil.rmtree(around.folder / "gateway.sock", ignore_errors=True)

    assert failures(pidispatch("doctor", "--json"))["gateway"] == "it does not answer as ready"


def test_doctoring_changes_no_row(doctor, database):
    a_run(database)
    before = value(database, "SELECT sum(epoch) + count(*) FROM runs")

    doctor()

    assert value(database, "SELECT sum(epoch) + count(*) FROM runs") == before
    assert value(database, "SELECT count(*) FROM audit_log") == 0


def test_an_installation_that_was_never_used_makes_no_host(pidispatch, database):
    pidispatch("doctor")

    assert value(database, "SELECT count(*) FROM hosts") == 0


def test_an_allowlist_that_is_broken_is_a_failure_and_egress_that_is_off_a_warning(
    pidispatch, bare, tmp_path
):
    (tmp_path / "egress.conf").write_text("*.example.com\n")
    bare.setenv("PIDISPATCH_EGRESS_FILE", str(tmp_path / "egress.conf"))
    assert "egress.conf:1: " in failures(pidispatch("doctor", "--json"))["egress"]

    bare.setenv("PI_EGRESS", "0")
    bare.setenv("PIDISPATCH_EGRESS_OFF_BECAUSE", "a lab")
    assert graded(pidispatch("doctor", "--json"))["egress"] == "warning"
