"""Finish: from an ended box to the record."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

import structlog

from pidispatch.domain.box.facts import BoxState
from pidispatch.domain.box.sandbox import explain_start_failure
from pidispatch.domain.runs.chaintree import Harvest
from pidispatch.domain.runs.exitline import TAIL_LIMIT, ExitLine, parse_exit
from pidispatch.domain.runs.outcome import MAX_SILENT, REPORT_CAPABILITY, Again, End, Evidence, judge
from pidispatch.domain.runs.reconcile import GATEWAY_PATIENCE, Absence, Departure, preparer_fell_silent
from pidispatch.domain.runs.run import AttemptFacts, BoxEnd, Claim, Occupant, Outcome, Result, State
from pidispatch.domain.runs.session import KeptSession, NotKept
from pidispatch.domain.runs.telemetry import telemetry
from pidispatch.errors import BoxFault, EngineUnavailable, FolderRefused, GatewayUnavailable, StaleEpoch
from pidispatch.flows.chain import ChainCollector
from pidispatch.flows.cleanup import Cleanup
from pidispatch.flows.sessions import SessionKeeper
from pidispatch.flows.tenure import BoxFinder
from pidispatch.ports import Boxes, Doors, FolderChange, GitBox, Notes, OpenFolder, Redact
from pidispatch.store.runs.calls import PostgresTickets
from pidispatch.store.runs.chains import Chains
from pidispatch.store.runs.endings import Endings
from pidispatch.store.runs.transitions import Runs


class Changes:
    """Looks at the folder of a run that has ended, as its owner, without its repository's programs."""

    def __init__(self, *, chains: Chains, gitbox: GitBox, open_folder: OpenFolder) -> None:
        self._chains = chains
        self._gitbox = gitbox
        self._open_folder = open_folder

    def seen(self, run_id: int, *, patient: bool) -> bool:
        """Whether a change is seen: another commit, or files that are not committed. What cannot be looked at shows none.

        Raises DatabaseUnavailable, and EngineUnavailable if `patient`.
        """
        run = self._chains.parent(run_id)
        if run.folder is None or run.image is None or run.commit is None:
            return False
        try:
            folder = self._open_folder(run.folder)
            state = self._gitbox.state(folder, image=run.image)
        except EngineUnavailable:
            if patient:
                raise
            return False
        except (FolderRefused, BoxFault) as error:
            log.warning("changes_unseen", run=run.public_id, problem=str(error))
            return False
        return state.problem is None and (state.dirty or state.head != run.commit)


log = structlog.get_logger(__name__)

PATIENCE = timedelta(
    seconds=60
)  # then a run ends without what could not be looked at: its folder, its children
CAPABILITIES_LABEL = "dev.pi-dispatch.capabilities"


@dataclass(frozen=True, slots=True)
class _Said:
    """A box's last words: its exit line, and what its init said if nothing could be started."""

    line: ExitLine | None
    problem: str | None


NOTHING = _Said(None, None)


class Finisher:
    """Any process may finish any run of this host, again and again: the epoch lets one of them write."""

    def __init__(
        self,
        *,
        host: str,
        runs: Runs,
        occupants: Runs,
        workspaces: Runs,
        folder_change: FolderChange,
        endings: Endings,
        reports: PostgresTickets,
        boxes: Boxes,
        finder: BoxFinder,
        doors: Doors,
        chains: ChainCollector,
        changes: Changes,
        redact: Redact,
        sessions: SessionKeeper,
        cleanup: Cleanup,
        notes: Notes,
        clock: Callable[[], datetime],
    ) -> None:
        self._host = host
        self._runs = runs
        self._occupants = occupants
        self._workspaces = workspaces
        self._folder_change = folder_change
        self._endings = endings
        self._reports = reports
        self._boxes = boxes
        self._finder = finder
        self._doors = doors
        self._chains = chains
        self._changes = changes
        self._redact = redact
        self._sessions = sessions
        self._cleanup = cleanup
        self._notes = notes
        self._clock = clock

    def finish(self, run_id: int) -> None:
        """End the attempt if its box has ended or gone.

        Raises EngineUnavailable and DatabaseUnavailable: nothing was written, and it will be asked again.
        """
        run = self._occupants.occupant(run_id)
        if run is not None:
            self._end(run, take_back=False, departure=Departure.UNKNOWN)

    def take_back(self, run: Occupant, departure: Departure) -> None:
        """End an attempt that never got its go, as it was when that was decided: one that moved on since is left alone.

        `departure` is what is known of the worker that prepared it. Raises as `finish` does.
        """
        self._end(run, take_back=True, departure=departure)

    def _end(self, run: Occupant, *, take_back: bool, departure: Departure) -> None:
        found = self._finder.find(run)
        if found is Absence.UNKNOWN:
            return
        box = None if isinstance(found, Absence) else found
        if not _is_over(run, box, take_back=take_back):
            return
        try:
            claim = self._runs.finishing(Claim(run.run_id, run.public_id, run.attempt, run.epoch))
            self._close(run, claim, box, departure=departure)
        except StaleEpoch as error:
            log.info("left_to_another", run=run.public_id, problem=str(error))

    def _close(self, run: Occupant, claim: Claim, box: BoxState | None, *, departure: Departure) -> None:
        lost = self._notes.finishers_lost(run.run_id)
        with self._notes.finishing(run.run_id):
            said = NOTHING if box is None or lost >= MAX_SILENT else self._said(box)
        if box is not None and not box.ended:
            self._boxes.remove(box.container_id)  # it never got its go, and cannot get it any more
        if not self._calls_are_closed(run):
            return
        with self._notes.finishing(run.run_id):
            self._keep_exit_line(claim, said.line)
            facts = self._facts(run)
            evidence = _evidence(facts, box, said.problem, finishers_lost=lost)
            if run.state is not State.FINISHING:
                evidence = self._with_its_worker(evidence, run, box, departure)
            if evidence.got_go:
                evidence = replace(evidence, workspace_gone=self._workspace_gone(run))
            if evidence.got_go and evidence.exit_code == 0 and not evidence.workspace_gone:
                evidence = replace(evidence, idle=self._is_idle(run, facts, said.line))
            verdict = judge(evidence)
            harvest = self._harvest(run, facts, verdict)
            labels = {} if box is None else box.labels
            session = self._sessions.collect(verdict, facts.container_name, labels)
            written = self._write(claim, verdict, _box_end(box), harvest, session)
        if written:
            log.info("attempt_over", run=run.public_id, attempt=run.attempt, **asdict(verdict))
            children = self._chains.tell(run.run_id, run.public_id, harvest)
            self._cleanup.after(run.run_id, facts.container_id, facts.container_name)
            self._cleanup.ring(self._host, children=children)

    def _facts(self, run: Occupant) -> AttemptFacts:
        """What the rows know, once no call of the run is open.

        Its door is closed and it runs no more, so a call that is still held is one that no gateway knows of: whoever opened
        it was killed, or lost the database, between the commit and the answer. It counts what it held.
        """
        facts = self._runs.facts(run.run_id)
        if not facts.open_calls:
            return facts
        log.warning("calls_without_gateway", run=run.public_id, calls=facts.open_calls)
        self._reports.assume_calls(run.run_id)
        return self._runs.facts(run.run_id)

    def _is_idle(self, run: Occupant, facts: AttemptFacts, line: ExitLine | None) -> bool:
        """Whether nothing shows that it did anything. Its folder is looked at only where nothing else does."""
        said = facts.report_said or (line is not None and (line.message is not None or bool(line.turns)))
        return (
            not facts.calls and not said and not self._changes.seen(run.run_id, patient=self._is_patient(run))
        )

    def _is_patient(self, run: Occupant) -> bool:
        return run.state is not State.FINISHING or self._clock() - run.state_since < PATIENCE

    def _with_its_worker(
        self, evidence: Evidence, run: Occupant, box: BoxState | None, departure: Departure
    ) -> Evidence:
        """A worker that was told to end says nothing of the run; a box that it had started was on its own by then."""
        if departure is Departure.LEFT:
            return replace(evidence, worker_left=box is None or box.status == "created")
        died = departure is Departure.DIED
        return replace(evidence, worker_silent=died or preparer_fell_silent(run, self._clock()))

    def _workspace_gone(self, run: Occupant) -> bool:
        """What an agent did in a folder that is somebody else's by now is done nowhere; unknown counts as gone."""
        workspace = self._workspaces.workspace(run.run_id)
        if workspace is None:
            return False
        try:
            change = self._folder_change(workspace)
        except OSError as error:
            change = str(error)
        if change is not None:
            log.warning("workspace_gone", run=run.public_id, problem=change)
        return change is not None

    def _said(self, box: BoxState) -> _Said:
        """Read a box's last words. What took three workers with it is not read a fourth time."""
        tail = self._boxes.tail(box.container_id, TAIL_LIMIT)
        exit_code = box.exit_code if box.ended else None
        return _Said(parse_exit(tail), explain_start_failure(exit_code, tail))

    def _harvest(self, run: Occupant, facts: AttemptFacts, verdict: End | Again) -> Harvest | None:
        """Only what did something may ask for more. An engine that is away is waited for, but not for ever."""
        match verdict:
            case End(outcome=Outcome.COMPLETED, result=result) if result is not Result.NO_OP:
                pass
            case _:
                return None
        if facts.container_name is None:
            return None
        return self._chains.collect(run.run_id, facts.container_name, patient=self._is_patient(run))

    def _write(
        self,
        claim: Claim,
        verdict: End | Again,
        box: BoxEnd,
        harvest: Harvest | None,
        session: KeptSession | NotKept | None,
    ) -> bool:
        match verdict:
            case End():
                return self._endings.end(claim, verdict, box, harvest=harvest, session=session)
            case Again():
                return self._endings.again(claim, verdict, box)

    def _calls_are_closed(self, run: Occupant) -> bool:
        """Close the door and settle. A gateway that stays silent is not waited for longer than its patience."""
        try:
            self._doors.close(run.run_id)
        except GatewayUnavailable:
            since = run.state_since if run.state is State.FINISHING else None
            if since is None or self._clock() - since < GATEWAY_PATIENCE:
                return False
            self._reports.assume_calls(run.run_id)
        return True

    def _keep_exit_line(self, claim: Claim, line: ExitLine | None) -> None:
        """The line on stdout is telemetry: kept, told beside what was measured, never believed."""
        if line is None:
            return
        try:
            said = telemetry(line, lambda text: self._redact(text.encode()).decode(errors="replace"))
        except GatewayUnavailable:
            said = telemetry(line, None)
        self._reports.keep_telemetry(claim.run_id, claim.attempt, said)


def _is_over(run: Occupant, box: BoxState | None, *, take_back: bool) -> bool:
    if box is None:
        return take_back or run.container_id is not None or run.state is State.FINISHING
    # Finishing without a go: whoever took it back, or gave it up, could not remove the box.
    return box.ended or (run.go_at is None and (take_back or run.state is State.FINISHING))


def _evidence(
    facts: AttemptFacts, box: BoxState | None, start_problem: str | None, *, finishers_lost: int
) -> Evidence:
    exit_code = None if box is None or not box.ended else box.exit_code
    labels = {} if box is None else box.labels
    return Evidence(
        got_go=facts.got_go,
        box_known=box is not None,
        exit_code=exit_code,
        oom_killed=box is not None and box.oom_killed,
        stop_reason=facts.stop_reason,
        unstarted_before=facts.unstarted_attempts,
        charged=facts.charged,
        last_status=facts.last_status,
        billed=facts.billed,
        report_expected=REPORT_CAPABILITY in labels.get(CAPABILITIES_LABEL, "").split(","),
        report_verified=facts.report_verified,
        report_reason=facts.report_reason,
        silent_before=facts.silent_attempts + finishers_lost,
        start_problem=None if facts.got_go else start_problem,
        refused=facts.refused,
        last_stop=facts.last_stop,
        notes=facts.report_notes,
    )


def _box_end(box: BoxState | None) -> BoxEnd:
    if box is None or not box.ended:
        return BoxEnd()
    return BoxEnd(box.exit_code, box.oom_killed, box.finished_at)
