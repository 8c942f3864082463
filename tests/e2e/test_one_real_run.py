"""Real pi in a real box, start to record."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.installation import FORWARDED, KEY, OWNER, STORED_KEY, eventually, every_file
from tests.support.patience import slowness

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("e2e")]


@pytest.mark.parametrize(
    ("provider", "path", "key"),
    [
        ("scripted", "/v1/chat/completions", KEY),
        ("anthropic", "/v1/messages", KEY),
        ("openai", "/v1/responses", KEY),
        ("groq", "/v1/chat/completions", STORED_KEY),
        ("open-box", "/v1/chat/completions", ""),
        ("our-box", "/v1/responses", KEY),
    ],
)
def test_a_person_types_one_command_and_the_folder_and_the_record_show_it(installation, provider, path, key):
    folder = installation.repository(f"one-{provider}")
    before = len(installation.provider.asked)

    answer = installation.run(folder, "--provider", provider)

    asked = installation.provider.asked[before:]
    assert {(each.path.partition("?")[0], each.key) for each in asked} == {(path, key)}
    if provider == "our-box":
        assert {each.body["max_output_tokens"] for each in asked} == {4_321}
    assert answer["outcome"] == "completed", answer
    assert (folder / "hello.txt").read_text() == "hello pidispatch\n"
    assert (folder / "hello.txt").stat().st_uid == OWNER
    assert (folder / "made-by-agent.txt").stat().st_uid == OWNER
    record = installation.record(answer["public_id"])
    assert (record["outcome"], record["turns"], record["exit_code"], record["attempt"]) == (
        "completed",
        4,
        0,
        1,
    )
    assert {
        key: record[key] for key in ("tokens_in", "tokens_out", "tokens_cache_read")
    } == installation.used(folder)
    psql = installation.pidispatch(
        "db", "psql", "-At", "-c", "select outcome, turns, tokens_total, exit_code from run_history"
        f" where public_id = '{answer['public_id']}'",
    )  # fmt: skip
    assert psql.stdout.strip() == f"completed|4|{record['tokens_total']}|0"
    shown = json.loads(installation.pidispatch("show", answer["public_id"], "--json").stdout)
    assert answer["public_id"] in json.dumps(shown)
    (attempt,) = shown["attempts"]
    assert {line["of"] for line in attempt["compared"]} >= {"code", "turns", "calls", "tokens"}
    assert not [line for line in attempt["compared"] if line["differs"]]
    listed = json.loads(installation.pidispatch("runs", "--json").stdout)
    assert answer["public_id"] in json.dumps(listed)


def test_no_key_is_in_the_box_nor_in_any_file_of_the_home(installation):
    folder = installation.repository("secrets")
    answer = installation.run(folder, model="gated", wait=False)
    eventually((folder / "waiting").exists, "the agent waits", seconds=60)
    box = installation.one(
        "SELECT a.container_id FROM run_attempts a JOIN runs r ON r.id = a.run_id WHERE r.public_id = :id",
        id=answer["public_id"],
    )["container_id"]

    inspected = subprocess.run(["docker", "inspect", box], capture_output=True, text=True, check=True).stdout
    inside = subprocess.run(
        ["docker", "exec", box, "sh", "-c", "env; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline /agent/* 2>/dev/null; true"],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (folder / "release").touch()
    eventually(lambda: installation.state(answer["public_id"]) == "ended", "the run ends", seconds=60)

    assert "PI_PROVIDER" in inside
    assert f"WORKED_WITH={FORWARDED}" in inside
    assert FORWARDED not in inspected
    assert STORED_KEY not in inspected + inside
    assert KEY not in inspected
    assert KEY not in inside
    assert installation.record(answer["public_id"])["outcome"] == "completed"
    for path in every_file(installation.home):
        assert KEY.encode() not in path.read_bytes(), path
        assert STORED_KEY.encode() not in path.read_bytes(), path
    assert all(KEY not in line for line in installation.lines)
    environments = [process.environ() for process in installation.workers()]
    assert environments
    assert all(KEY not in str(environment) for environment in environments)


@pytest.mark.parametrize("model", ["kill-runner", "term-init", "forge-exit"])
def test_an_agent_that_attacks_its_runner_gets_one_attempt_and_never_a_success(installation, model):
    folder = installation.repository(f"attack-{model}")

    answer = installation.run(folder, model=model)

    record = installation.record(answer["public_id"])
    assert record["outcome"] in {"failed", "policy"}, record
    assert record["attempt"] == 1
    assert {
        key: record[key] for key in ("tokens_in", "tokens_out", "tokens_cache_read")
    } == installation.used(folder)


def test_300_megabytes_without_a_newline_stay_out_of_the_workers_memory(installation):
    folder = installation.repository("big")

    answer = installation.run(folder, model="big")

    assert installation.state(answer["public_id"]) == "ended"
    peaks = [
        int(line.split()[1])
        for process in installation.workers()
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]
    assert max(peaks) < 200 * 1024, peaks


def test_the_turn_limit_stops_a_loop_as_policy(installation):
    folder = installation.repository("loop")

    answer = installation.run(folder, "--max-turns", "3", model="loop")

    record = installation.record(answer["public_id"])
    assert (record["outcome"], record["reason"], record["why"]) == ("policy", "runner-policy", "turn-budget")
    assert record["turns"] == 3


def test_a_folder_may_have_any_name(installation):
    names = ["with space", "with\nnewline", "ünïcode 語", "quote'\"$(touch marker)", "colon:ro"]
    folders = [installation.repository(name) for name in names]

    answers = [installation.run(folder, "--task", "go", wait=False) for folder in folders]

    for answer, folder in zip(answers, folders, strict=True):
        eventually(lambda run=answer["public_id"]: installation.state(run) == "ended", "it ends", seconds=120)
        assert installation.record(answer["public_id"])["outcome"] == "completed"
        assert (folder / "hello.txt").read_text() == "hello pidispatch\n"
    assert not (installation.root / "marker").exists()


def test_a_link_to_a_folder_is_the_folder(installation):
    folder = installation.repository("linked")
    link = installation.root / "repos" / "link"
    link.symlink_to(folder)

    answer = installation.run(link)

    assert answer["outcome"] == "completed"
    assert (folder / "hello.txt").read_text() == "hello pidispatch\n"


def test_a_folder_that_cannot_be_used_is_refused_with_the_way_out(installation):
    a_file = installation.repository("refusals") / "hello.txt"
    cases = {str(installation.root / "missing"): "does not exist", str(a_file): "is not a directory"}

    for folder, words in cases.items():
        done = installation.pidispatch("run", folder, "--task", "x", check=False)
        assert done.returncode == 1
        assert words in done.stderr


@pytest.fixture
def derived_image(tmp_path):
    """Makes an image like the job image with another entrypoint; returns its tag."""
    made = []

    def make(entrypoint: list[str]) -> str:
        tag = f"pidispatch-test-{os.urandom(4).hex()}:latest"
        (tmp_path / "Dockerfile").write_text(f"FROM pi-job:latest\nENTRYPOINT {json.dumps(entrypoint)}\n")
        build = ["docker", "build", "-q", "--network=none", "-t", tag, str(tmp_path)]
        subprocess.run(build, check=True, capture_output=True, env={**os.environ, "DOCKER_BUILDKIT": "0"})
        made.append(tag)
        return tag

    yield make
    for tag in made:
        subprocess.run(["docker", "rmi", "-f", tag], check=False, capture_output=True)


@pytest.mark.parametrize(
    ("entrypoint", "code", "why"),
    [(["sh", "-c", "exit 3"], 3, "exited-early"), (["/no/such/program"], None, "entrypoint-missing")],
)
def test_a_box_that_cannot_work_ends_failed_at_once_and_costs_nothing(
    installation, derived_image, entrypoint, code, why
):
    folder = installation.repository(f"broken-{why}")
    image = derived_image(entrypoint)
    used = "SELECT used FROM spend_windows"
    before = (
        installation.one(used)["used"] if installation.one("SELECT count(*) n FROM spend_windows")["n"] else 0
    )
    began = time.monotonic()

    answer = installation.run(folder, "--image", image)

    record = installation.record(answer["public_id"])
    assert (record["outcome"], record["reason"], record["why"]) == ("failed", "container-never-started", why)
    assert record["exit_code"] == code
    assert installation.one(used)["used"] == before
    # Two interpreters and a git box are in it; the verdict itself is quick.
    assert time.monotonic() - began < 10 * slowness()


def test_an_image_that_is_not_there_is_refused(installation):
    folder = installation.repository("no-image")

    done = installation.pidispatch("run", str(folder), "--task", "x", "--image", "no-such:image", check=False)

    assert done.returncode == 1
    assert "no-such:image" in done.stderr


def test_a_task_by_file_arrives_at_the_model(installation, tmp_path):
    tasks = [
        b"NUL \0 in the middle",
        "語 العربية ß 🐢 \u202e".encode(),
        b"lone surrogate \xed\xa0\x80 and \xff bytes",
        b"x" * 200_000,
    ]
    answers = []

    for number, task in enumerate(tasks):
        file = tmp_path / f"task-{number}"
        file.write_bytes(task)
        folder = installation.repository(f"task-{number}")
        answers.append(installation.run(folder, "--task-file", str(file), wait=False))

    for answer in answers:
        eventually(lambda run=answer["public_id"]: installation.state(run) == "ended", "it ends", seconds=120)
        assert installation.record(answer["public_id"])["outcome"] == "completed"
    for task in tasks:
        words = task.decode(errors="replace")
        assert any(words in _texts(asked.body) for asked in installation.provider.asked)


def test_a_task_over_a_mebibyte_arrives_visibly_cut_between_characters(installation, tmp_path):
    folder = installation.repository("task-long")
    task = ("é" * 700_000).encode()
    file = tmp_path / "task"
    file.write_bytes(task)

    answer = installation.run(folder, "--task-file", str(file))

    assert answer["outcome"] == "completed"
    cut = f"[The task was cut here: 1048576 of {len(task)} bytes.]"
    assert any(cut in _texts(asked.body) for asked in installation.provider.asked)


def _texts(body) -> str:
    """All text of a request's user messages."""
    found = []
    for message in (body or {}).get("messages", []):
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"text": content}]
        found += [str(part.get("text", "")) for part in parts if isinstance(part, dict)]
    return "\n".join(found)


def test_nothing_is_left_when_runs_have_ended(installation):
    eventually(
        lambda: installation.one("SELECT count(*) AS live FROM runs WHERE state <> 'ended'")["live"] == 0,
        "all ended",
    )
    label = installation.one("SELECT installation FROM hosts")["installation"]
    eventually(lambda: not _boxes(label), "no box is left", seconds=20)
    eventually(lambda: not [*(installation.home / "run" / "g").iterdir()], "no door is left", seconds=20)
    eventually(lambda: not [*(installation.home / "jobs").iterdir()], "no job files are left", seconds=20)


def _boxes(installation_label: str) -> str:
    listed = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=dev.pidispatch.installation={installation_label}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return listed.stdout
