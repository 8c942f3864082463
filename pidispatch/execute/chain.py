"""Chain: from the requests in an outbox to the runs they ask for."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from pidispatch.domain import words
from pidispatch.domain.chaintree import Harvest, TreeCaps
from pidispatch.domain.identity import chained_run_id
from pidispatch.domain.outbox import (
    WHOLE_OUTBOX,
    Child,
    Letter,
    Refusal,
    Wish,
    may_be_asked_for,
    read_request,
)
from pidispatch.domain.policy import Policy
from pidispatch.errors import DatabaseUnavailable, EngineUnavailable, GatewayUnavailable
from pidispatch.ports import (
    ChainParent,
    Chains,
    GitBox,
    HeadCommit,
    LocalFolder,
    OpenFolder,
    Policies,
    ReadOutbox,
    Redact,
)

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChainLimits:
    """How deep a chain may go, and how many runs and micro-dollars its whole tree may use; None is no bound."""

    depth: int
    tree_runs: int | None = None
    tree_micros: int | None = None


class ChainCollector:
    """Judges what a completed run left behind. Nothing it finds there can keep the run from ending."""

    def __init__(
        self,
        *,
        chains: Chains,
        read_outbox: ReadOutbox,
        gitbox: GitBox,
        open_folder: OpenFolder,
        head_commit: HeadCommit,
        policies: Policies,
        limits: ChainLimits,
        redact: Redact,
    ) -> None:
        self._chains = chains
        self._read_outbox = read_outbox
        self._gitbox = gitbox
        self._open_folder = open_folder
        self._head_commit = head_commit
        self._policies = policies
        self._limits = limits
        self._redact = redact

    def collect(self, run_id: int, box: str, *, patient: bool) -> Harvest:
        """What the run's requests come to; asking again gives the same runs.

        Raises DatabaseUnavailable, and EngineUnavailable and GatewayUnavailable if `patient`. Any other fault is a
        refusal of them all.
        """
        try:
            return self._collect(run_id, box)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            if patient and isinstance(error, EngineUnavailable | GatewayUnavailable):
                raise
            log.exception("chain_not_collected", run_id=run_id)
            return Harvest((Refusal(WHOLE_OUTBOX, words.CHAIN_COLLECT_ERROR),))

    def tell(self, run_id: int, public_id: str, harvest: Harvest | None) -> int:
        """Log what became of the requests, as it is recorded; returns how many runs were queued."""
        if harvest is None or not harvest.answers:
            return 0
        try:
            answers = self._chains.answers(run_id)
        except DatabaseUnavailable as error:
            log.warning("chain_answers_unread", run=public_id, problem=str(error))
            return len(harvest.children)
        queued = sorted({answer.run for answer in answers if answer.run is not None})
        refused = Counter(answer.refused for answer in answers if answer.refused is not None)
        log.info("chain_collected", run=public_id, queued=queued, refused=dict(refused))
        return len(queued)

    def _collect(self, run_id: int, box: str) -> Harvest:
        letters = self._read_outbox(box)
        if not letters:
            return Harvest()
        parent = self._chains.parent(run_id)
        if parent.kind != "local" or parent.folder is None:
            return Harvest(
                tuple(
                    Refusal(letter.number, words.CHAIN_COLLECT_ERROR, words.NOT_LOCAL) for letter in letters
                )
            )
        depth = parent.depth + 1
        judged = [self._judged(letter, depth) for letter in letters]
        wishes = [each for each in judged if isinstance(each, Wish)]
        if not wishes:
            return Harvest(tuple(each for each in judged if isinstance(each, Refusal)))
        folder = self._open_folder(parent.folder)
        skills = self._skills(parent, folder, wishes)
        event = self._event(folder)
        answers = (
            self._grown(each, parent, skills, event) if isinstance(each, Wish) else each for each in judged
        )
        return Harvest(tuple(answers), self._caps(parent))

    def _judged(self, letter: Letter, depth: int) -> Wish | Refusal:
        """Its task is kept as a payload, so what it holds of our secrets is masked first."""
        judged = read_request(letter, depth=depth, depth_max=self._limits.depth)
        return replace(judged, task=self._redact(judged.task)) if isinstance(judged, Wish) else judged

    def _skills(
        self, parent: ChainParent, folder: LocalFolder, wishes: Sequence[Wish]
    ) -> Mapping[str, bytes] | None:
        """By flow, as they were before the agent started; None when it is not known which commit that was."""
        if parent.commit is None or parent.image is None:
            return None
        return self._gitbox.skills(
            folder,
            commit=parent.commit,
            flows=sorted({wish.flow for wish in wishes}),
            image=parent.image,
        )

    def _event(self, folder: LocalFolder) -> bytes:
        event = {"source": "chain", "folder": folder.basename, "sha": self._head_commit(folder.path)}
        return json.dumps(event, ensure_ascii=True).encode()

    @staticmethod
    def _grown(
        wish: Wish, parent: ChainParent, skills: Mapping[str, bytes] | None, event: bytes
    ) -> Child | Refusal:
        if skills is None:
            return Refusal(wish.number, words.CHAIN_GATE_DENY, words.NO_COMMIT)
        if wish.flow not in skills:
            return Refusal(wish.number, words.CHAIN_GATE_DENY, words.NO_SKILL)
        if not may_be_asked_for(skills[wish.flow]):
            return Refusal(wish.number, words.CHAIN_GATE_DENY, words.NOT_ALLOWED)
        public_id = chained_run_id(parent.public_id, wish.flow, wish.task)
        return Child(wish.number, public_id, wish.flow, wish.task, event)

    def _caps(self, parent: ChainParent) -> TreeCaps:
        policy = self._policies.current()
        each = parent.cost_cap_micros
        if isinstance(policy, Policy):
            each = policy.narrowed(cost_cap=each, models=None).max_cost_micros
        return TreeCaps(self._limits.tree_runs, self._limits.tree_micros, each)
