"""How an attempt is judged: what is certain first, the exit code last."""

from dataclasses import replace

import pytest

from pidispatch.domain.runs.outcome import Again, End, Evidence, judge
from pidispatch.domain.runs.run import Outcome, Result

RAN = Evidence(
    got_go=True,
    box_known=True,
    exit_code=0,
    stop_reason=None,
    charged=1,
    last_status=200,
    billed=3,
    report_expected=True,
    report_verified=True,
    report_reason="completed",
)
SILENT = replace(
    RAN, got_go=False, charged=0, billed=0, last_status=None, report_verified=False, report_reason=None
)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, End(Outcome.COMPLETED, "completed", result=Result.DONE_UNVERIFIED)),
        ({"report_verified": False}, End(Outcome.FAILED, "report-unverified")),
        (
            {"report_verified": False, "report_expected": False},
            End(Outcome.COMPLETED, "completed", result=Result.DONE_UNVERIFIED),
        ),
        ({"exit_code": 1, "report_reason": "error"}, End(Outcome.FAILED, "infra", "error")),
        (
            {"exit_code": 2, "report_reason": "turn_budget"},
            End(Outcome.POLICY, "runner-policy", "turn-budget"),
        ),
        ({"exit_code": 2, "report_reason": "cost-cap"}, End(Outcome.POLICY, "cost-cap")),
        ({"exit_code": 2, "report_verified": False}, End(Outcome.POLICY, "runner-policy")),
        ({"exit_code": 2, "report_reason": "No Word!"}, End(Outcome.POLICY, "runner-policy")),
        ({"exit_code": 3}, End(Outcome.FAILED, "unknown-exit-code")),
        ({"exit_code": None}, End(Outcome.FAILED, "unknown", "exit-code-unreadable")),
        ({"exit_code": 137}, End(Outcome.FAILED, "killed", "sigkill")),
        ({"exit_code": 137, "oom_killed": True}, End(Outcome.FAILED, "oom-killed")),
        (
            {"exit_code": 0, "oom_killed": True},
            End(Outcome.COMPLETED, "completed", result=Result.DONE_UNVERIFIED),
        ),
        ({"exit_code": 143}, End(Outcome.FAILED, "killed", "sigterm")),
        ({"exit_code": 98}, End(Outcome.FAILED, "infra", "deadline")),
        (
            {"stop_reason": "disk-low", "exit_code": 137},
            End(Outcome.POLICY, "worker-abort", "disk-low"),
        ),
        ({"box_known": False, "exit_code": None}, End(Outcome.FAILED, "lost")),
        ({"stop_reason": "operator-cancel"}, End(Outcome.POLICY, "operator-cancel")),
        ({"stop_reason": "deadline", "exit_code": 143}, End(Outcome.POLICY, "worker-abort", "deadline")),
        ({"stop_reason": "shutdown", "box_known": False}, End(Outcome.POLICY, "worker-abort", "shutdown")),
    ],
)
def test_an_attempt_that_got_its_go_is_judged_by_what_is_certain(change, verdict):
    assert judge(replace(RAN, **change)) == verdict


REFUSALS = [
    "cost-cap",
    "token-cap",
    "turn-cap",
    "model-not-allowed",
    "cost-cap-unenforceable",
    "model-policy-unenforceable",
]


@pytest.mark.parametrize(
    "change", [{}, {"exit_code": 1}, {"exit_code": 137}, {"box_known": False}, {"billed": 0}]
)
@pytest.mark.parametrize("refused", REFUSALS)
def test_the_gateways_refusal_decides_whatever_the_exit_code(refused, change):
    evidence = replace(RAN, refused=refused, last_status=503, **change)

    assert judge(evidence) == End(Outcome.POLICY, refused)


def test_calls_that_an_operator_stopped_end_a_run_as_that():
    assert judge(replace(RAN, refused="stopped", exit_code=1)) == End(Outcome.POLICY, "operator-stop")


def test_a_stop_that_was_asked_for_goes_before_a_refusal():
    assert judge(replace(RAN, refused="cost-cap", stop_reason="deadline")) == End(
        Outcome.POLICY, "worker-abort", "deadline"
    )
    assert judge(replace(RAN, refused="cost-cap", stop_reason="operator-cancel")).reason == "operator-cancel"


def test_a_provider_that_failed_without_a_billed_call_is_worth_one_more_attempt():
    failed = replace(RAN, exit_code=1, last_status=503, billed=0)

    assert judge(failed) == Again("provider-failed", 60)
    assert judge(replace(failed, last_status=0)) == Again("provider-failed", 60)
    assert judge(replace(failed, last_status=429)) == Again("provider-failed", 60)
    assert judge(replace(failed, charged=2)) == End(Outcome.FAILED, "infra", "completed")
    assert judge(replace(failed, billed=1)) == End(Outcome.FAILED, "infra", "completed")
    assert judge(replace(failed, last_status=401)) == End(Outcome.FAILED, "infra", "completed")


def test_an_exit_code_alone_never_brings_a_second_attempt():
    for code in range(256):
        assert isinstance(judge(replace(RAN, exit_code=code)), End)


def test_a_box_that_never_got_its_go_starts_again_but_not_for_ever():
    assert judge(replace(SILENT, exit_code=97)) == Again("never-started", 5)
    assert judge(replace(SILENT, exit_code=137)) == Again("never-started", 5)
    assert judge(replace(SILENT, box_known=False, exit_code=None)) == Again("never-started", 5)
    assert judge(replace(SILENT, unstarted_before=3, exit_code=97)) == End(
        Outcome.FAILED, "container-never-started", "too-many-starts"
    )


def test_a_problem_of_the_image_is_told_at_once():
    verdict = judge(replace(SILENT, exit_code=127, start_problem="entrypoint-missing"))

    assert verdict == End(Outcome.FAILED, "container-never-started", "entrypoint-missing")


@pytest.mark.parametrize("code", [0, 1, 3, 125, 126, 127])
def test_a_program_that_ends_by_itself_without_asking_for_its_go_is_not_started_again(code):
    verdict = judge(replace(SILENT, exit_code=code))

    assert verdict == End(Outcome.FAILED, "container-never-started", "exited-early")


def test_a_forged_report_reason_cannot_choose_a_label():
    forged = replace(RAN, exit_code=2, report_verified=False, report_reason="cost-cap")

    assert judge(forged) == End(Outcome.POLICY, "runner-policy")


@pytest.mark.parametrize(
    ("before", "verdict"),
    [
        (0, Again("worker-silent", 2)),
        (1, Again("worker-silent", 2)),
        (2, End(Outcome.FAILED, "poisoned", "worker-silent")),
    ],
)
def test_a_run_that_takes_three_workers_with_it_is_poisoned(before, verdict):
    evidence = replace(SILENT, box_known=False, exit_code=None, worker_silent=True, silent_before=before)

    assert judge(evidence) == verdict


def test_a_go_whose_answer_got_lost_is_spent():
    assert judge(replace(RAN, exit_code=97, billed=0)) == End(Outcome.FAILED, "lost", "go-answer-lost")
