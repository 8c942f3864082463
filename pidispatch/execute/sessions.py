"""Keep the session of a run that stopped at a cap, and hand it to the run that goes on from there."""

from collections.abc import Mapping

from pidispatch.domain import words
from pidispatch.domain.landing import stopped_at
from pidispatch.domain.outcome import Again, End
from pidispatch.domain.run import Job
from pidispatch.domain.session import FRESH, PI_VERSION_LABEL, KeptSession, NotKept, Staged, stage
from pidispatch.errors import GatewayUnavailable
from pidispatch.ports import Images, ReadSession, Sessions


class SessionKeeper:
    """Every box has a session; it outlives its box only after a stop at a cap.

    A transcript holds whatever the agent read, so nobody keeps one by accident.
    """

    def __init__(self, *, sessions: Sessions, images: Images, read_session: ReadSession) -> None:
        self._sessions = sessions
        self._images = images
        self._read_session = read_session

    def staged(self, job: Job) -> Staged:
        """What the attempt's box finds. Raises DatabaseUnavailable, EngineUnavailable."""
        if job.continues is None:
            return FRESH
        facts = self._images.facts(job.terms.image)
        version = None if facts is None else facts.labels.get(PI_VERSION_LABEL)
        return stage(self._sessions.kept(job.continues), version)

    def collect(
        self, verdict: End | Again, box_name: str | None, labels: Mapping[str, str]
    ) -> KeptSession | NotKept | None:
        """What is kept of a box that has ended; None for an ending that keeps nothing. `labels` are its image's too."""
        if not isinstance(verdict, End) or box_name is None:
            return None
        if stopped_at(verdict.outcome, verdict.reason, verdict.why) is None:
            return None
        try:
            content = self._read_session(box_name)
        except GatewayUnavailable:
            return NotKept(words.GATEWAY_UNREACHABLE)
        if isinstance(content, NotKept):
            return content
        return KeptSession(content, labels.get(PI_VERSION_LABEL))
