"""The real image, real pi, no network: only the provider is ours, behind the gate."""

import json
import os
import time

import pytest
from docker.types import Mount

from pidispatch.domain.box.agentfiles import agent_files
from pidispatch.domain.box.sandbox import BoxSpec
from pidispatch.domain.runs.session import problem_of
from pidispatch.runtime.engine import Engine
from tests.runner import scripted
from tests.runner.support import ENV
from tests.runner.test_main import verified
from tests.support.image import IMAGE

pytestmark = pytest.mark.docker
UID = 4321 if os.getuid() == 0 else os.getuid()


@pytest.fixture
def engine():
    made = Engine()
    yield made
    made.close()


@pytest.fixture
def job(tmp_path):
    tmp_path.chmod(0o755)
    for name in ("job/agent", "workspace"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "job/prompt.md").write_text("go ahead")
    os.chown(tmp_path / "workspace", UID, UID)
    return tmp_path


def run_box(engine, job, gateway, provider, env=None):
    """Run the image as a box would be; returns (exit code, output)."""
    spec = BoxSpec(name="", image=IMAGE, uid=UID, gid=UID, labels={}, mounts=())
    places = {"/job": "job", "/workspace": "workspace"}
    mounts = [
        Mount(inside, str(job / name), "bind", read_only=inside == "/job") for inside, name in places.items()
    ]
    if (job / "session").exists():
        mounts.append(Mount("/session", str(job / "session"), "bind"))
    mounts.append(Mount("/gate", gateway.directory, "bind", read_only=True))
    for name, content in agent_files(*provider, known_to_pi=False).items():
        (job / "job/agent" / name).write_bytes(content)
        mounts.append(Mount(f"/agent/{name}", str(job / "job/agent" / name), "bind", read_only=True))
    api = engine.api
    host = api.create_host_config(
        init=True, cap_drop=["ALL"], security_opt=["no-new-privileges"], network_mode="none", read_only=True,
        tmpfs=spec.tmpfs, mounts=mounts, mem_limit=spec.memory, pids_limit=512,
    )  # fmt: skip
    given = {**ENV, "PI_PROVIDER": provider[0], "PI_MODEL": provider[1], **(env or {})}
    given |= {"PATH": "/usr/local/bin:/usr/bin:/bin", "PI_DISPATCH_GATE": "/gate/s", "PI_OFFLINE": "1"}
    made = api.create_container(IMAGE, user=f"{UID}:{UID}", environment=given, host_config=host)
    try:
        api.start(made["Id"])
        code = api.wait(made["Id"])["StatusCode"]
        return code, api.logs(made["Id"])
    finally:
        api.remove_container(made["Id"], force=True)


@pytest.mark.parametrize("api", ["openai-completions", "anthropic-messages"])
def test_real_pi_changes_a_file_through_the_gate(engine, job, gateway, api):
    gateway.provider = scripted.answer

    code, output = run_box(engine, job, gateway, ("scripted", "any-model", api))

    made = job / "workspace/made.txt"
    assert code == 0, output
    assert made.read_text() == "made in the box\n"
    assert made.stat().st_uid == UID
    assert verified(gateway)
    report = gateway.body("/report")
    assert (report["turns"], report["tokens"]["total"], report["pi"]) == (2, 2 * sum(scripted.USAGE), "1.6.0")
    assert b'"reason":"completed"' in output


def test_the_guard_lets_exactly_the_allowed_requests_out(engine, job, gateway):
    gateway.provider = lambda path, body: b"".join(scripted.openai(0))

    code, _ = run_box(engine, job, gateway, ("scripted", "loop", "openai-completions"), {"PI_MAX_TURNS": "3"})

    assert (code, gateway.body("/report")["reason"]) == (2, "turn_budget")
    assert gateway.paths().count("/v1/chat/completions") == 3


def test_pi_is_steered_before_its_next_request_and_comes_to_an_end(engine, job, gateway):
    near = {"v": 1, "share": 0.8, "of": "turns", "landing": True, "turns": 16, "cap_turns": 20}
    gateway.budget = [(200, {**near, "landing": False}), (200, near)]
    # It works until it is told to come to an end, half a second for each turn.
    gateway.provider = lambda _path, body: b"".join(slow_step(stopped=b"A note from pidispatch" in body))

    code, output = run_box(engine, job, gateway, ("scripted", "loop", "openai-completions"))

    asked = [json.loads(body) for path, _, body in gateway.requests if path.startswith("/v1")]
    assert (code, output.count(b'"event":"budget_landing"')) == (0, 1), output
    assert "16 of 20, the turns" in str(asked[-1]["messages"][-1])
    assert sum("A note from pidispatch" in str(request) for request in asked) == 1
    assert gateway.budget_asked == 2


def slow_step(*, stopped):
    if not stopped:
        time.sleep(0.5)
    return scripted.openai(1 if stopped else 0)


def a_session(job, content=b""):
    (job / "session").mkdir(exist_ok=True)
    path = job / "session/current.jsonl"
    path.write_bytes(content)
    for place in (path.parent, path):
        os.chown(place, UID, UID)
    return path


def test_what_stopped_at_a_cap_goes_on_with_the_conversation(engine, job, gateway):
    session = a_session(job)
    gateway.provider = lambda path, body: b"".join(scripted.openai(0))
    run = (engine, job, gateway, ("scripted", "loop", "openai-completions"), {"PI_MAX_TURNS": "3"})
    assert run_box(*run)[0] == 2
    kept = session.read_bytes()
    assert problem_of(kept) is None

    (job / "job/prompt.md").write_text("go on")
    a_session(job, kept)
    gateway.requests.clear()
    gateway.provider = lambda path, body: b"".join(scripted.openai(1))

    assert run_box(*run)[0] == 0
    messages = next(json.loads(body) for path, _, body in gateway.requests if path.startswith("/v1"))[
        "messages"
    ]
    assert [message["role"] for message in messages] == ["system", "user", *["assistant", "tool"] * 3, "user"]
    assert "go on" in str(messages[-1])
    assert gateway.body("/report")["session"] == {"resumed": True, "reason": "resumed"}


def test_what_the_gateway_refused_goes_on_too(engine, job, gateway):
    session = a_session(job)
    gateway.refuse_after = 1
    gateway.provider = lambda path, body: b"".join(scripted.openai(0))
    run = (engine, job, gateway, ("scripted", "loop", "openai-completions"))
    code, output = run_box(*run)
    assert (code, gateway.body("/report")["reason"]) == (2, "gateway-refused"), output

    a_session(job, session.read_bytes())
    gateway.refuse_after = None
    gateway.requests.clear()
    gateway.provider = lambda path, body: b"".join(scripted.openai(1))

    assert run_box(*run)[0] == 0
    messages = next(json.loads(body) for path, _, body in gateway.requests if path.startswith("/v1"))[
        "messages"
    ]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "tool", "user"]


def test_the_placeholder_is_the_only_key_in_the_box(engine, job, gateway):
    gateway.provider = scripted.answer
    run_box(engine, job, gateway, ("scripted", "any-model", "openai-completions"))

    calls = [headers for path, headers, _ in gateway.requests if path.startswith("/v1")]
    keys = {value for headers in calls for name, value in headers.items() if name.lower() == "authorization"}
    assert keys == {"Bearer no-key-in-this-box"}
