import hashlib
import hmac
import json
import os
import threading
import time

import pytest

from tests.runner.support import KEY, Box
from tests.support.patience import slowness, until


def verified(gateway):
    found = next(entry for entry in gateway.requests if entry[0] == "/report")
    _, headers, body = found
    return headers["X-Pidispatch-Signature"] == hmac.new(KEY.encode(), body, hashlib.sha256).hexdigest()


def test_a_run_asks_for_its_go_drives_pi_and_reports(tmp_path, gateway):
    box = Box(
        tmp_path,
        gateway,
        prompt=b"caf\xe9 \xc3\xa9\xe2\x80\xa8\n",
        env={"SECRET": "no", "PI_MAX_TOKENS": "9000"},
    )

    code, line = box.end()

    assert (code, line["reason"], line["turns"], line["tokens"]["total"]) == (0, "completed", 4, 5905)
    assert line["jobId"] == "pi-job-0123abcd-7-1"
    assert line["context"] == {"tokens": 1725, "window": 128000}
    assert gateway.paths() == ["/go", "/report"]
    assert gateway.body("/go")["attempt"] == 1
    assert verified(gateway)
    report = gateway.body("/report")
    assert (report["v"], report["attempt"], report["code"], report["truncated"]) == (1, 1, 0, False)
    assert report["tokens"] == line["tokens"]
    assert box.record["prompt"]["message"] == "caf\ufffd \u00e9\u2028\n"
    assert box.record["arguments"][:4] == ["--mode", "rpc", "-ne", "-e"]
    assert "--no-session" in box.record["arguments"]
    assert box.record["env"]["PI_MAX_TOKENS"] == "9000"
    assert "SECRET" not in box.record["env"]
    assert "PI_DISPATCH_GATE" not in box.record["env"]
    assert box.record["env"]["HTTPS_PROXY"] == box.record["env"]["http_proxy"] == "http://127.0.0.1:4180"
    assert "127.0.0.1" in box.record["env"]["NO_PROXY"].split(",")


def test_forwarded_variables_reach_the_agent_and_replace_nothing_that_decides(tmp_path, gateway):
    (tmp_path / "job").mkdir()
    given = {
        "MINE": "é\udcff",
        "TZ": "Europe/Berlin",
        "PATH": "/evil",
        "PI_MAX_TURNS": "999",
        "HOME": "/evil",
    }
    (tmp_path / "job/env.json").write_text(json.dumps(given))
    box = Box(tmp_path, gateway, env={"TZ": "UTC"})

    code, _ = box.end()

    env = box.record["env"]
    assert (code, env["MINE"], env["TZ"]) == (0, "é\udcff", "Europe/Berlin")
    assert (env["PATH"], env["HOME"], env["PI_MAX_TURNS"]) == (os.environ["PATH"], "/home/pi", "20")


def test_forwarded_variables_that_cannot_be_read_start_no_pi(tmp_path, gateway):
    (tmp_path / "job").mkdir()
    (tmp_path / "job/env.json").write_text("{")
    box = Box(tmp_path, gateway)

    code, line = box.end()

    assert (code, line["reason"]) == (1, "infra")
    assert not box.pi_was_started


@pytest.mark.parametrize(
    ("stream", "mode", "expected"),
    [
        ("maxturns-guard", "normal", (2, "turn_budget")),
        ("maxtokens-guard", "normal", (2, "token_budget")),
        ("http401", "normal", (2, "provider-auth-refused")),
        ("http402", "normal", (2, "gateway-refused")),
        ("quota", "normal", (1, "error")),
        ("http500-exhausted", "normal", (1, "error")),
        ("aborted", "normal", (2, "aborted")),
        ("truncated", "cut", (1, "pi-exited")),
        ("happy", "huge", (0, "completed")),
        ("happy", "flood", (0, "completed")),
        ("happy", "noise", (0, "completed")),
        ("happy", "ask", (0, "completed")),
        ("happy", "die", (2, "config")),
        ("happy", "unguarded", (1, "guard-failed")),
        ("happy", "refuse", (2, "config")),
    ],
)
def test_each_way_to_end_has_its_code_and_reason(tmp_path, gateway, stream, mode, expected):
    ended, line = Box(tmp_path, gateway, stream=stream, mode=mode).end()

    assert (ended, line["reason"]) == expected
    assert gateway.body("/report")["reason"] == expected[1]
    assert verified(gateway)


def test_without_a_go_pi_never_starts(tmp_path, gateway):
    gateway.go = [(403, {"go": False, "reason": "not-live"})]
    box = Box(tmp_path, gateway)

    code, line = box.end()

    assert (code, line["reason"], line["message"]) == (97, "no-go", "not-live")
    assert not box.pi_was_started
    assert gateway.paths() == ["/go"]


@pytest.mark.parametrize(
    "answer", [{"go": True}, {"go": True, "key": "short"}, {"go": 1, "key": KEY}, [], "go"]
)
def test_an_answer_that_is_no_clear_yes_is_a_no(tmp_path, gateway, answer):
    gateway.go = [(200, answer)]
    box = Box(tmp_path, gateway)

    assert box.end()[0] == 97
    assert not box.pi_was_started


def test_a_lost_answer_and_an_absent_database_are_asked_again(tmp_path, gateway):
    gateway.go = [None, (503, {}), (200, {"go": True, "key": KEY})]

    assert Box(tmp_path, gateway).end()[0] == 0
    assert gateway.paths().count("/go") == 3


def test_a_gateway_that_comes_late_is_waited_for(tmp_path, gateway):
    gateway.shut()
    box = Box(tmp_path, gateway)
    opening = threading.Timer(0.5, gateway.open)
    opening.start()

    assert box.end()[0] == 0


def test_a_gateway_that_never_answers_ends_the_box_without_pi(tmp_path, gateway):
    gateway.shut()
    box = Box(tmp_path, gateway, go_seconds=0.5)

    code, line = box.end()

    assert (code, line["message"]) == (97, "gate-unreachable")
    assert not box.pi_was_started


def test_a_bad_setting_ends_the_box_before_it_asks(tmp_path, gateway):
    box = Box(tmp_path, gateway, env={"PI_MAX_TURNS": "05"})

    code, line = box.end()

    assert (code, line["reason"]) == (2, "config")
    assert "PI_MAX_TURNS" in line["message"]
    assert gateway.requests == []


def test_a_report_is_tried_again_while_the_database_is_away(tmp_path, gateway):
    gateway.report = [(503, None), None, (204, None)]

    assert Box(tmp_path, gateway).end()[0] == 0
    assert gateway.paths().count("/report") == 3


def test_a_report_outlasts_a_database_that_is_full_for_a_while(tmp_path, gateway):
    gateway.report = [*[(503, None)] * 24, (204, None)]  # six seconds, at four a second

    assert Box(tmp_path, gateway).end()[0] == 0
    assert gateway.paths().count("/report") == 25


def test_a_refused_report_changes_nothing_about_the_end(tmp_path, gateway):
    gateway.report = [(400, {"error": "malformed"})]

    assert Box(tmp_path, gateway).end()[0] == 0
    assert gateway.paths().count("/report") == 1


def test_a_pi_that_goes_past_its_turns_is_ended(tmp_path, gateway):
    code, line = Box(tmp_path, gateway, env={"PI_MAX_TURNS": "3"}).end()

    assert (code, line["reason"], line["turns"]) == (1, "guard-failed", 4)


def test_the_last_allowed_turn_may_finish_the_task(tmp_path, gateway):
    assert Box(tmp_path, gateway, env={"PI_MAX_TURNS": "4"}).end()[0] == 0


def test_sigterm_ends_pi_and_says_what_was_spent(tmp_path, gateway):
    box = Box(tmp_path, gateway, mode="hang")
    until(lambda: box.pi_was_started)
    time.sleep(0.3)  # the first turn's lines follow its record
    started = time.monotonic()
    box.terminate()

    code, line = box.end()

    assert (code, line["reason"], line["turns"]) == (143, "terminated", 1)
    assert line["tokens"]["total"] > 0
    assert gateway.body("/report")["code"] == 143
    assert time.monotonic() - started < 4 * slowness()


def test_sigterm_while_waiting_for_the_go_ends_at_once(tmp_path, gateway):
    gateway.go = [(503, {})]
    box = Box(tmp_path, gateway, go_seconds=60.0)
    until(lambda: gateway.requests)
    box.terminate()

    code, line = box.end()

    assert (code, line["reason"]) == (143, "terminated")
    assert not box.pi_was_started


@pytest.mark.parametrize("mode", ["hang", "deaf"])
def test_the_runners_own_deadline_ends_pi(tmp_path, gateway, mode):
    box = Box(
        tmp_path, gateway, mode=mode, env={"PI_DISPATCH_DEADLINE": "1"}, grace=0.0, prompt=b"x" * 1_000_000
    )

    code, line = box.end()

    assert (code, line["reason"]) == (1, "deadline")


@pytest.mark.parametrize(
    ("mode", "expected"),
    [("held", (1, "pi-exited")), ("held-talking", (1, "pi-exited")), ("held-settled", (0, "completed"))],
)
def test_a_tool_that_keeps_pis_output_open_does_not_hold_up_the_end(tmp_path, gateway, mode, expected):
    code, line = Box(tmp_path, gateway, mode=mode).end(seconds=8)

    assert (code, line["reason"]) == expected
    assert line["turns"] >= 1
    assert gateway.body("/report")["reason"] == expected[1]


@pytest.mark.parametrize(("content", "resumed"), [(b"", False), (b'{"type":"session"}\n', True)])
def test_a_session_file_is_handed_to_pi_only_where_there_is_one(tmp_path, gateway, content, resumed):
    session = tmp_path / "session/current.jsonl"
    session.parent.mkdir()
    session.write_bytes(content)
    box = Box(tmp_path, gateway)

    _, line = box.end()

    assert line["session"]["resumed"] is resumed
    assert box.record["arguments"][-2:] == ["--session", str(session)]


def test_excluded_tools_are_passed_on(tmp_path, gateway):
    box = Box(tmp_path, gateway, env={"PI_EXCLUDE_TOOLS": "bash,write"})
    box.end()

    assert box.record["arguments"][-2:] == ["-xt", "bash,write"]


def test_a_missing_prompt_or_program_is_infrastructure(tmp_path, gateway):
    code, line = Box(tmp_path, gateway, job=str(tmp_path / "nowhere")).end()

    assert (code, line["reason"]) == (1, "infra")


def test_two_million_characters_of_prompt_arrive(tmp_path, gateway):
    box = Box(tmp_path, gateway, prompt="ü".encode() * 2_000_000)
    box.end()

    assert len(box.record["prompt"]["message"]) == 2_000_000
