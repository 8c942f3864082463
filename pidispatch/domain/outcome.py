"""Judge how an attempt ended, from facts that the box could not forge."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pidispatch.domain import words
from pidispatch.domain.exitline import POLICY_LABELS
from pidispatch.domain.run import Outcome, Result
from pidispatch.domain.words import Use, words_of

NO_GO = 97  # the runner's exit code when the gateway gave no go
OVERDUE = 98  # the exit code of a box that its own init ended, long after its deadline
MAX_ATTEMPTS = 2  # attempts that got their go
MAX_SILENT = 3  # workers that a run may take with it
MAX_STARTS = (
    4  # boxes that never asked for their go, so that a broken image or host cannot start one run for ever
)
REPORT_CAPABILITY = "report"  # the image label that promises a signed report


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of an attempt whose box has ended or gone.

    `unstarted_before` counts earlier boxes that came to nothing without a go. `exit_code` is the engine's, None when it could not be read. `charged` counts attempts that got their go, this
    one included. `last_status` is the status of the gateway's last answer, None without a call; `billed` counts
    calls that used tokens. `worker_silent`: the worker that prepared this attempt fell silent over it; `worker_left`: it
    was told to end before it had started the box; `silent_before`
    counts the workers that were lost over the run before, whatever they did for it. `report_expected` holds for images that promise a signed report.
    `refused`: why the gateway refused its last call, or ended its last answer early; `stopped` is an operator's doing.
    `idle`: it called no model, left its folder as it was or as nobody could see, and said nothing of what it did.
    `last_stop` is why the last answer ended; `notes` is what the runner noticed, in words of ours.
    `workspace_gone`: its folder is not where, or not whose, it was at admission, or nobody can tell.
    """

    got_go: bool
    box_known: bool
    exit_code: int | None
    stop_reason: str | None
    charged: int
    unstarted_before: int = 0
    last_status: int | None = None
    billed: int = 0
    report_expected: bool = False
    report_verified: bool = False
    report_reason: str | None = None
    start_problem: str | None = None
    oom_killed: bool = False
    worker_silent: bool = False
    worker_left: bool = False
    silent_before: int = 0
    refused: str | None = None
    idle: bool = False
    last_stop: str | None = None
    notes: Sequence[str] = ()
    workspace_gone: bool = False


@dataclass(frozen=True, slots=True)
class End:
    """The run ends. Whether it keeps what it reserved is a matter of its go alone, so nothing here says so.

    `remarks` say where a completed run may have fallen short of what it was asked for.
    """

    outcome: Outcome
    reason: str
    why: str | None = None
    result: Result = Result.NONE
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Again:
    """The run is queued again after `delay` seconds."""

    cause: str
    delay: int


Verdict = End | Again

_NAMED_STOPS = frozenset({words.OPERATOR_CANCEL, words.SUPERSEDED, words.WORKSPACE_GONE})
POISONED = End(Outcome.FAILED, words.POISONED, words.WORKER_SILENT)
_BY_CODE = {
    137: End(Outcome.FAILED, words.KILLED, words.SIGKILL),
    143: End(Outcome.FAILED, words.KILLED, words.SIGTERM),
    OVERDUE: End(Outcome.FAILED, words.INFRA, words.DEADLINE),
}
_WORTH_A_START = (None, NO_GO, 137, 143)
_WORD = re.compile(r"[a-z][a-z0-9-]{0,63}")


def judge(evidence: Evidence) -> Verdict:
    """The first thing that is certain decides; the exit code comes last, since the agent can choose it."""
    if evidence.stop_reason is not None:
        return _stopped(evidence.stop_reason)
    if evidence.silent_before >= MAX_SILENT:
        return POISONED
    if not evidence.got_go:
        return _never_started(evidence)
    if evidence.refused is not None:
        return End(
            Outcome.POLICY, words.OPERATOR_STOP if evidence.refused == words.STOPPED else evidence.refused
        )
    if not evidence.box_known:
        return End(Outcome.FAILED, words.LOST)
    if evidence.workspace_gone:
        return End(Outcome.POLICY, words.WORKSPACE_GONE)
    return _exited(evidence)


def _stopped(stop_reason: str) -> End:
    reason = stop_reason if stop_reason in _NAMED_STOPS else words.WORKER_ABORT
    why = None if reason == stop_reason else stop_reason
    return End(Outcome.POLICY, reason, why)


def _never_started(evidence: Evidence) -> Verdict:
    """A problem of the image comes again; a box that was refused its go, killed or lost is worth another start."""
    if evidence.start_problem is not None:
        return End(Outcome.FAILED, words.CONTAINER_NEVER_STARTED, evidence.start_problem)
    if evidence.exit_code not in _WORTH_A_START:
        return End(Outcome.FAILED, words.CONTAINER_NEVER_STARTED, words.EXITED_EARLY)
    if evidence.worker_left:
        return Again(words.WORKER_LEFT, 1)
    if evidence.worker_silent:
        return took_its_worker(evidence.silent_before)
    if evidence.unstarted_before + 1 >= MAX_STARTS:
        return End(Outcome.FAILED, words.CONTAINER_NEVER_STARTED, words.TOO_MANY_STARTS)
    return Again(words.NEVER_STARTED, 5)


def took_its_worker(silent_before: int) -> Verdict:
    """Once may be chance. A run that does it again and again would take every worker down, one after the other."""
    return POISONED if silent_before + 1 >= MAX_SILENT else Again(words.WORKER_SILENT, 2)


def _exited(evidence: Evidence) -> Verdict:
    if _provider_failed(evidence) and evidence.charged < MAX_ATTEMPTS:
        return Again(words.PROVIDER_FAILED, 60)
    match evidence.exit_code:
        case None:
            return End(Outcome.FAILED, words.UNKNOWN, words.EXIT_CODE_UNREADABLE)
        case 0:
            return _claimed_success(evidence)
        case 1:
            return End(Outcome.FAILED, words.INFRA, _detail(evidence))
        case 2:
            return _policy_stop(_detail(evidence))
        case 97:  # NO_GO: the go was given, its answer got lost, and a second one is never given
            return End(Outcome.FAILED, words.LOST, words.GO_ANSWER_LOST)
        case 137 if evidence.oom_killed:
            return End(Outcome.FAILED, words.OOM_KILLED)
        case code:
            return _BY_CODE.get(code, End(Outcome.FAILED, words.UNKNOWN_EXIT_CODE))


def _policy_stop(detail: str | None) -> End:
    if detail in POLICY_LABELS:
        return End(Outcome.POLICY, detail)
    return End(Outcome.POLICY, words.RUNNER_POLICY, detail)


def _claimed_success(evidence: Evidence) -> End:
    """Exit 0 is believed from an image that promises no report, or with its signed report."""
    if evidence.report_expected and not evidence.report_verified:
        return End(Outcome.FAILED, words.REPORT_UNVERIFIED)
    result = Result.NO_OP if evidence.idle else Result.DONE_UNVERIFIED
    return End(Outcome.COMPLETED, words.COMPLETED, result=result, remarks=remarks(evidence))


def remarks(evidence: Evidence) -> tuple[str, ...]:
    """What is worth a look in a run that says it is done, in the order of the table."""
    noticed = {words.ANSWER_CUT} if evidence.last_stop == "length" else set()
    noticed |= {words.NOTHING_DONE} if evidence.idle else set()
    return tuple(each for each in words_of(Use.REMARK) if each in noticed or each in evidence.notes)


def _detail(evidence: Evidence) -> str | None:
    """The runner's own reason as a record's word; what it did not sign, or what is no word, is left out."""
    if not evidence.report_verified or evidence.report_reason is None:
        return None
    word = evidence.report_reason.replace("_", "-")
    return word if _WORD.fullmatch(word) else None


def _provider_failed(evidence: Evidence) -> bool:
    status = evidence.last_status
    failed = status is not None and (status in {0, 429} or status >= 500)
    return failed and evidence.billed == 0 and evidence.exit_code != 0
