"""Match an event against the entries of `triggers.json`, gate by gate, so that each entry can say where it stopped."""

from collections.abc import Iterable, Iterator, Sequence

from pidispatch.domain import words
from pidispatch.domain.triggers.conditions import Found, content_of, refused_person, summoned_flow, text_of
from pidispatch.domain.triggers.event import Event, Route, needs_authority, problem_of
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    IssueEvent,
    LabelEvent,
    PullRequestEvent,
    Trigger,
    Triggers,
)
from pidispatch.domain.triggers.verdicts import Dropped, Match, MatchGate, Stopped, Verdict


def match(event: Event, triggers: Triggers) -> Match | Dropped:
    """The first entry that matches, in the order of the file; else why none does."""
    problem = problem_of(event)
    if problem is not None:
        return Dropped(problem)
    nearest: Stopped | None = None
    own = [each for each in triggers.entries if each.work.kind == event.forge.name]
    for verdict in _verdicts(event, own, _Flows(triggers.entries)):
        if isinstance(verdict, Match):
            return verdict
        if nearest is None or verdict.gate > nearest.gate:
            nearest = verdict
    if nearest is None or nearest.gate <= MatchGate.EVENT:
        return Dropped(words.UNHANDLED_EVENT, nearest)
    return Dropped(nearest.reason, nearest)


def verdicts(event: Event, triggers: Triggers) -> list[Verdict]:
    """What each entry says, in the order in which they are asked; the first match is the one that starts."""
    return list(_verdicts(event, triggers.entries, _Flows(triggers.entries)))


class _Flows:
    """The flows that a comment may name: of every forge's entries that are armed; gathered when first asked for."""

    def __init__(self, entries: Sequence[Trigger]) -> None:
        self._entries = entries
        self._known: frozenset[str] | None = None

    def known(self) -> frozenset[str]:
        if self._known is None:
            self._known = frozenset(
                each.work.ask.flow
                for each in self._entries
                if each.work.ask.flow and each.disarmed is None and not isinstance(each.on, Cron)
            )
        return self._known


def _verdicts(event: Event, entries: Sequence[Trigger], flows: _Flows) -> Iterator[Verdict]:
    return (_judge(event, trigger, flows) for trigger in _in_turn(event, entries))


def _in_turn(event: Event, entries: Sequence[Trigger]) -> Iterable[Trigger]:
    """Where a close of an issue may move labels too, the entries that wait for the close are asked first."""
    if event.forge.close_moves_labels and event.route is Route.ISSUE and event.forge.closes(event.action):
        return sorted(entries, key=lambda each: isinstance(each.on, LabelEvent))
    return entries


def _judge(event: Event, trigger: Trigger, flows: _Flows) -> Verdict:
    if trigger.work.kind != event.forge.name:
        return Stopped(trigger, MatchGate.FORGE, words.OTHER_FORGE)
    if trigger.disarmed is not None:
        return Stopped(trigger, MatchGate.ARMED, words.DISARMED)
    if not _hears(trigger, event):
        return Stopped(trigger, MatchGate.EVENT, words.OTHER_EVENT)
    repo = _repository(event, trigger)
    if repo is None:
        return Stopped(trigger, MatchGate.REPOSITORY, words.NO_REPOSITORY)
    if trigger.repos and repo.lower() not in {each.lower() for each in trigger.repos}:
        return Stopped(trigger, MatchGate.REPOSITORY, words.OTHER_REPOSITORY)
    stopped = content_of(event, trigger)
    if isinstance(stopped, Stopped):
        return stopped
    if needs_authority(event) and event.allowed is not True:
        return Stopped(
            trigger,
            MatchGate.AUTHORITY,
            words.AUTHORITY_NOT_ASKED if event.allowed is None else refused_person(event),
        )
    return _found(event, trigger, flows, repo, stopped)


def _hears(trigger: Trigger, event: Event) -> bool:
    match trigger.on:
        case LabelEvent() | IssueEvent():
            return event.route is Route.ISSUE
        case CommentEvent():
            return event.route is Route.COMMENT
        case PullRequestEvent():
            return event.route is Route.PULL_REQUEST
        case Cron():
            return False


def _repository(event: Event, trigger: Trigger) -> str | None:
    """A work item of Azure belongs to a project; the entry says which of its repositories is meant."""
    if event.repo is not None:
        return event.repo
    named = trigger.work.repository
    return f"{event.project}/{named}" if event.project and named else None


def _found(event: Event, trigger: Trigger, flows: _Flows, repo: str, matched: Found) -> Match:
    work, on = trigger.work, trigger.on
    flow = work.ask.flow
    if isinstance(on, CommentEvent) and work.ask.command is None:
        flow = summoned_flow(text_of(event.comment), on.phrase, flows.known()) or flow
    return Match(
        trigger=trigger,
        repo=repo,
        number=event.number or 0,
        item=event.item,
        type=matched[0],
        by=matched[1],
        flow=flow,
        command=work.ask.command,
        closed=isinstance(on, IssueEvent | PullRequestEvent) and event.forge.closes(event.action),
    )
