import pytest
from runner.decide import decide
from runner.fold import START

from tests.runner.support import fold


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("happy", 0, "completed"),
        ("toolfail", 0, "completed"),
        ("length", 0, "completed"),
        ("http429-recovered", 0, "completed"),
        ("maxturns-guard", 2, "turn_budget"),
        ("maxtokens-guard", 2, "token_budget"),
        ("aborted", 2, "aborted"),
        ("http401", 2, "provider-auth-refused"),
        ("http402", 2, "gateway-refused"),
        ("http500-exhausted", 1, "error"),
        ("quota", 1, "error"),
    ],
)
def test_a_settled_stream_gets_its_code_and_reason(name, code, reason):
    verdict = decide(fold(name), "settled")

    assert (verdict.code, verdict.reason) == (code, reason)


def test_an_answer_cut_at_its_length_is_done_and_truncated():
    assert decide(fold("length"), "settled").truncated
    assert not decide(fold("happy"), "settled").truncated


def test_pi_gone_without_settling_is_never_success():
    verdict = decide(START._replace(last_stop="stop", turns=1), "ended")

    assert (verdict.code, verdict.reason) == (1, "pi-exited")


def test_a_run_without_any_answer_is_not_done():
    assert decide(START, "settled").reason == "no-terminal-message"
    assert decide(START, "handled").code == 1


def test_an_unknown_stop_reason_is_named():
    assert decide(START._replace(last_stop="deferred"), "settled").reason == "unknown-stop-reason:deferred"


def test_the_deadline_is_infrastructure_but_a_limit_reached_before_is_policy():
    assert decide(START, "deadline").reason == "deadline"
    assert decide(START._replace(limit="max_turns"), "deadline").reason == "turn_budget"


def test_termination_says_143_whatever_was_seen():
    assert decide(fold("happy"), "terminated")[:2] == (143, "terminated")


def test_a_status_must_begin_the_error_to_count_as_refused():
    talked_about = START._replace(last_stop="error", last_error="upstream said 401 Unauthorized")

    assert decide(talked_about, "settled").reason == "error"


def test_a_payment_error_of_the_provider_is_not_the_gateways_refusal():
    provider = START._replace(last_stop="error", last_error="402: insufficient credits")

    assert decide(provider, "settled")[:2] == (1, "error")


@pytest.mark.parametrize(
    ("said", "code", "reason"),
    [
        ('Error: Unknown provider "nosuch".', 2, "config"),
        ("No API key found for anthropic.", 2, "config"),
        ("Segmentation fault", 1, "pi-exited"),
    ],
)
def test_what_pi_said_before_it_started_nothing_decides(said, code, reason):
    assert decide(START, "ended", said)[:2] == (code, reason)
