"""The scripted provider keeps to its script."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pidispatch.entrypoints.scripted import SCENARIOS, ScriptedProvider, usage_of
from pidispatch.entrypoints.scripted.wire_responses import steps_of_input

ASSISTANT = {"role": "assistant", "content": "…"}
PERSON = {"role": "user", "content": "go"}
RESULT = {"role": "user", "content": [{"type": "tool_result", "content": "ok"}]}


def ask(url, model, *messages, path="/v1/messages"):
    body = json.dumps({"model": model, "messages": [PERSON, *messages]}).encode()
    request = urllib.request.Request(url + path, body, {"x-api-key": "k"})
    try:
        with urllib.request.urlopen(request, timeout=10) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_the_step_is_the_number_of_answers_after_the_last_prompt():
    with ScriptedProvider() as provider:
        ask(provider.url, "happy", ASSISTANT, RESULT)
        ask(provider.url, "happy", ASSISTANT, RESULT, ASSISTANT, PERSON)

        assert [asked.step for asked in provider.asked] == [1, 0]
        assert provider.asked[0].usage == usage_of(1, 1)
        assert provider.asked[0].key == "k"


def test_two_refusals_then_the_happy_path_and_the_same_for_the_next_run():
    with ScriptedProvider() as provider:
        statuses = [ask(provider.url, "http429")[0] for _ in range(6)]
        later = ask(provider.url, "http429", ASSISTANT, RESULT)[0]

    assert statuses == [429, 429, 200, 429, 429, 200]
    assert later == 200


@pytest.mark.parametrize("status", [401, 402, 500])
def test_other_refusals_stay(status):
    with ScriptedProvider() as provider:
        assert {ask(provider.url, f"http{status}")[0] for _ in range(4)} == {status}


def test_a_forger_is_refused_after_its_forgery():
    with ScriptedProvider() as provider:
        first, _ = ask(provider.url, "forge-exit")
        second, _ = ask(provider.url, "forge-exit", ASSISTANT, RESULT)

    assert (first, second) == (200, 401)


@pytest.mark.parametrize("name", sorted(SCENARIOS))
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/v1/responses"])
def test_every_scenario_answers_in_every_api(name, path):
    with ScriptedProvider() as provider:
        status, answer = ask(provider.url, name, path=path)

    assert status == 200 or "error" in answer


def test_as_a_program_it_says_where_it_listens_and_logs(tmp_path: Path):
    log = tmp_path / "asked.jsonl"
    command = [sys.executable, "-m", "pidispatch.entrypoints.scripted", "--port", "0", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        word, url, _, port = process.stdout.readline().split()
        status, _ = ask(url, "happy")
        process.send_signal(signal.SIGTERM)
        process.wait(10)

    assert word == "ready"
    assert url.endswith(f":{port}")
    assert status == 200
    assert process.returncode == 0
    assert json.loads(log.read_text())["model"] == "happy"


def test_the_step_in_the_responses_api_is_the_number_of_answers_however_many_items_each_has():
    said = {"type": "message", "role": "assistant"}
    call, result = {"type": "function_call"}, {"type": "function_call_output"}
    answers = [
        {"type": "reasoning"},
        said,
        call,
        call,
        result,
        result,
        {"type": "configuration_update"},
        call,
        result,
    ]

    assert steps_of_input([PERSON, *answers]) == 2
    assert steps_of_input([PERSON, *answers, PERSON]) == 0
    assert steps_of_input("go") == 0
