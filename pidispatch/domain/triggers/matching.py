"""Match an event against the entries of `triggers.json`, gate by gate, so that each entry can say where it stopped."""

from collections.abc import Iterable, Sequence

from pidispatch.domain import words
from pidispatch.domain.triggers.conditions import (
    Found,
    Phrases,
    content_of,
    refused_person,
    summoned_flow,
    text_of,
)
from pidispatch.domain.triggers.event import Event, Route, needs_authority, problem_of
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    IssueEvent,
    LabelEvent,
    Labels,
    On,
    PullRequestEvent,
    Trigger,
    Triggers,
    TriggerType,
)
from pidispatch.domain.triggers.verdicts import Dropped, Match, MatchGate, Stopped, Verdict


def match(event: Event, triggers: Triggers) -> Match | Dropped:
    """The first entry that matches, in the order of the file; else why none does."""
    problem = problem_of(event)
    if problem is not None:
        return Dropped(problem)
    index = index_of(triggers)
    nearest: Stopped | None = None
    hint = _Hint(event, index)
    for trigger in _in_turn(event, index.entries(event)):
        if nearest is not None and nearest.gate >= hint.stops_at(trigger.on):
            continue  # no farther than one before it
        verdict = _judge(event, trigger, index)
        if isinstance(verdict, Match):
            return verdict
        if nearest is None or verdict.gate > nearest.gate:
            nearest = verdict
    if nearest is None:
        near = next(iter(_in_turn(event, index.nearest(event))), None)
        judged = None if near is None else _judge(event, near, index)
        nearest = judged if isinstance(judged, Stopped) else None
    if nearest is None or nearest.gate <= MatchGate.EVENT:
        return Dropped(words.UNHANDLED_EVENT, nearest)
    return Dropped(nearest.reason, nearest)


def verdicts(event: Event, triggers: Triggers) -> list[Verdict]:
    """What each entry says, in the order in which they are asked; the first match is the one that starts."""
    index = index_of(triggers)
    return [_judge(event, trigger, index) for trigger in _in_turn(event, triggers.entries)]


class _Hint:
    """Says without a verdict, and quickly, by which gate at the latest an entry stops."""

    def __init__(self, event: Event, index: "Index") -> None:
        self._event = event
        self._labels = {*event.labels, *(event.added or ())}
        comment = event.route is Route.COMMENT
        self._said = index.phrases.said(text_of(event.comment)) if comment else frozenset()

    def stops_at(self, on: On) -> int:
        match on:
            case CommentEvent(phrase):
                return _MAY_MATCH if phrase in self._said else MatchGate.CONTENT
            case LabelEvent(labels):
                return self._by_labels(labels)
            case IssueEvent(actions, number) | PullRequestEvent(actions, number=number):
                if self._event.action not in actions:
                    return MatchGate.ACTION
                if number is not None and number != self._event.number:
                    return MatchGate.NUMBER
                return self._by_labels(on.labels) if isinstance(on, PullRequestEvent) else _MAY_MATCH
            case _:
                return _MAY_MATCH

    def _by_labels(self, labels: Labels) -> int:
        if labels.any_of and self._labels.isdisjoint(labels.any_of):
            return MatchGate.CONTENT
        return _MAY_MATCH


_MAY_MATCH = MatchGate.AUTHORITY + 1


class Index:
    """The entries of one file by what an event says of itself, so that it is asked of few of them."""

    def __init__(self, triggers: Triggers) -> None:
        self.triggers = triggers
        self._of_forge: dict[str, list[Trigger]] = {}
        self._heard: dict[tuple[str, Route], list[Trigger]] = {}
        self._repos: dict[tuple[str, Route, str | None], list[Trigger]] = {}
        places: dict[int, int] = {}
        flows, phrases = set(), set()
        for place, each in enumerate(triggers.entries):
            if isinstance(each.on, Cron):
                self._of_forge.setdefault(each.work.kind, []).append(each)
                continue
            kind, route = each.work.kind, _ROUTES[each.type]
            self._of_forge.setdefault(kind, []).append(each)
            if each.disarmed is not None:
                continue
            self._heard.setdefault((kind, route), []).append(each)
            for repo in {name.lower() for name in each.repos} or (None,):
                self._repos.setdefault((kind, route, repo), []).append(each)
            places[id(each)] = place
            if each.work.ask.flow:
                flows.add(each.work.ask.flow)
            if isinstance(each.on, CommentEvent):
                phrases.add(each.on.phrase)
        self._places = places
        self.flows = frozenset(flows)  # that a comment may name, of whatever forge's entry
        self.phrases = Phrases(phrases)

    def entries(self, event: Event) -> list[Trigger]:
        """The armed ones that hear such an event, of the event's repository, in the order of the file."""
        heard = (event.forge.name, event.route)
        if event.repo is None:  # a work item: each entry says which repository it means
            found = self._heard.get(heard, [])
            return found if event.project else []
        anywhere = self._repos.get((*heard, None), [])
        here = self._repos.get((*heard, event.repo.lower()), [])
        return sorted(anywhere + here, key=lambda each: self._places[id(each)]) if here else anywhere

    def nearest(self, event: Event) -> list[Trigger]:
        """Those that got farthest where no entry of the repository hears such an event."""
        own = self._of_forge.get(event.forge.name, [])
        return (
            self._heard.get((event.forge.name, event.route))
            or [each for each in own if each.disarmed is None]
            or own
        )


_ROUTES = {
    TriggerType.LABEL: Route.ISSUE,
    TriggerType.ISSUE: Route.ISSUE,
    TriggerType.COMMENT: Route.COMMENT,
    TriggerType.PULL_REQUEST: Route.PULL_REQUEST,
}
_indexed: Index | None = None


def index_of(triggers: Triggers) -> Index:
    """Of the file that was asked about last; whoever reads a file makes it before an event waits for it."""
    global _indexed  # noqa: PLW0603 - one value that is as good as a new one
    index = _indexed
    if index is None or index.triggers is not triggers:
        _indexed = index = Index(triggers)
    return index


def _in_turn(event: Event, entries: Sequence[Trigger]) -> Iterable[Trigger]:
    """Where a close of an issue may move labels too, the entries that wait for the close are asked first."""
    if event.forge.close_moves_labels and event.route is Route.ISSUE and event.forge.closes(event.action):
        return sorted(entries, key=lambda each: isinstance(each.on, LabelEvent))
    return entries


def _judge(event: Event, trigger: Trigger, index: Index) -> Verdict:
    if trigger.work.kind != event.forge.name:
        return Stopped(trigger, MatchGate.FORGE, words.OTHER_FORGE)
    if trigger.disarmed is not None:
        return Stopped(trigger, MatchGate.ARMED, words.DISARMED)
    if isinstance(trigger.on, Cron) or _ROUTES[trigger.type] is not event.route:
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
    return _found(event, trigger, index, repo, stopped)


def _repository(event: Event, trigger: Trigger) -> str | None:
    """A work item of Azure belongs to a project; the entry says which of its repositories is meant."""
    if event.repo is not None:
        return event.repo
    named = trigger.work.repository
    return f"{event.project}/{named}" if event.project and named else None


def _found(event: Event, trigger: Trigger, index: Index, repo: str, matched: Found) -> Match:
    work, on = trigger.work, trigger.on
    flow = work.ask.flow
    if isinstance(on, CommentEvent) and work.ask.command is None:
        flow = summoned_flow(text_of(event.comment), on.phrase, index.flows) or flow
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
