"""Read `on` of the types that a forge's event starts."""

from dataclasses import dataclass

from pidispatch.domain.forges.forge import REVIEW_STATES, REVIEW_SUBMITTED
from pidispatch.domain.forges.table import FORGES, REVIEWED
from pidispatch.domain.limits.scopes import trim
from pidispatch.domain.text.jsonfile import Node, Number, shown
from pidispatch.domain.triggers.grammar.draft import Draft
from pidispatch.domain.triggers.grammar.part import Part
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Disarmed,
    IssueEvent,
    LabelEvent,
    Labels,
    PullRequestEvent,
    TriggerType,
)

CLOSE_WORDS = ", ".join(f"{forge.name}: {forge.closed}" for forge in FORGES.values() if forge.closed)
SELECTORS = ("any", "all", "none")
Event = LabelEvent | CommentEvent | PullRequestEvent | IssueEvent


@dataclass(frozen=True, slots=True)
class Narrowing:
    """One item, once, and the mark that it was."""

    number: int | None = None
    once: bool = False
    disarmed: Disarmed | None = None


def read_event(draft: Draft) -> tuple[Event, Disarmed | None]:
    match draft.type:
        case TriggerType.LABEL:
            labels = _labels(draft.on, positive=True)
            read_narrowing(draft)
            return LabelEvent(labels), None
        case TriggerType.COMMENT:
            phrase = draft.on.filled("phrase")
            read_narrowing(draft)
            return CommentEvent(phrase), None
        case TriggerType.ISSUE:
            return _issue(draft)
        case _:
            return _pull_request(draft)


def _issue(draft: Draft) -> tuple[IssueEvent, Disarmed | None]:
    on = draft.on
    if not draft.forge.issue_actions:
        on.refuse("type", f"issue does not work with {draft.kind} yet: {draft.forge.no_issues}")
    actions = on.words("action", draft.forge.issue_actions, f"{draft.kind} action of an issue")
    for selector in SELECTORS:
        on.forbid(
            selector,
            'does not go with an issue, whose labels are not looked at; for labels use on.type "label"',
        )
    one = read_narrowing(draft, capable=True)
    return IssueEvent(actions, one.number, one.once), one.disarmed


def _pull_request(draft: Draft) -> tuple[PullRequestEvent, Disarmed | None]:
    on, forge = draft.on, draft.forge
    actions = on.words("action", forge.pull_request_actions, f"{draft.kind} action of a pull request")
    closes = forge.closed in actions
    if closes and set(actions) != {forge.closed}:
        on.refuse(
            "action",
            f"must not mix {forge.closed} with others: a close asks who closed it, the others who wrote it; "
            "make two entries",
        )
    states = _review_states(draft, actions)
    for selector in SELECTORS:
        if not forge.has_pull_request_labels:
            on.forbid(
                selector, f"does not go with a pull request of {draft.kind}, where only work items have tags"
            )
        if closes:
            on.forbid(
                selector, f"does not go with {forge.closed}: only the action and on.number are looked at"
            )
    labels = _labels(on, positive=forge.labelled in actions)
    one = read_narrowing(draft, capable=closes)
    return PullRequestEvent(actions, labels, states, one.number, one.once), one.disarmed


def _review_states(draft: Draft, actions: tuple[str, ...]) -> tuple[str, ...]:
    on = draft.on
    if on.given("reviewState") is None:
        return ()
    if not draft.forge.tells_review_state:
        on.refuse(
            "reviewState", f"does not go with {draft.kind}: only {REVIEWED} tells the verdict of a review"
        )
    if REVIEW_SUBMITTED not in actions:
        on.refuse(
            "reviewState", f"needs {REVIEW_SUBMITTED} in on.action; without it there is nothing to narrow"
        )
    return on.words("reviewState", REVIEW_STATES, "verdict of a review")


def _labels(on: Part, *, positive: bool) -> Labels:
    any_of, all_of, none_of = (_names(on, selector) for selector in SELECTORS)
    if positive and not any_of and not all_of:
        on.refuse("any", "or on.all must name at least one label: the label is what approves the run")
    return Labels(any_of, all_of, none_of)


def _names(on: Part, selector: str) -> tuple[str, ...]:
    node = on.given(selector)
    if node is None:
        return ()
    items = node.value if isinstance(node.value, list) else [Node(None)]
    names = tuple(item.value for item in items if isinstance(item.value, str) and trim(item.value))
    if len(names) != len(items):
        on.refuse(selector, "must be a list of labels, each a text that is not empty")
    return names


def read_narrowing(draft: Draft, *, capable: bool = False) -> Narrowing:
    """`number`, `once` and `disarmed`: only a close names one item, so all else that carries them is refused."""
    if not capable:
        _refuse_narrowing(draft)
        return Narrowing()
    number = _number(draft.on)
    once = draft.on.flag("once") or False
    if once and number is None:
        draft.on.refuse("once", "needs on.number: else whichever item closes first uses it up")
    if once and "replicas" in draft.run.fields:
        draft.on.refuse("once", "does not go with run.replicas: one run, or several")
    return Narrowing(number, once, _mark(draft.on, once=once))


def _refuse_narrowing(draft: Draft) -> None:
    if draft.scheduled:
        draft.on.forbid("number", "does not go with cron: a schedule has no item to narrow to")
        draft.on.forbid("once", "does not go with cron; delete the entry when its work is done")
        draft.on.forbid("disarmed", "does not go with cron, which is never used up")
        return
    way_out = f'use on.type "issue", or a pull_request whose only action is the close word ({CLOSE_WORDS})'
    draft.on.forbid("number", f"works with a close alone; {way_out}")
    draft.on.forbid("once", f"works with a close alone, since only a close names one item; {way_out}")
    draft.on.forbid(
        "disarmed", "is the mark of a one-shot that was used up, and this entry cannot be one; delete it"
    )


def _number(on: Part) -> int | None:
    node = on.given("number")
    if node is None:
        return None
    value = node.value.whole() if isinstance(node.value, Number) else None
    if value is None or value < 1:
        on.refuse("number", "must be an integer >= 1 (at gitlab: the iid), written without quotes")
    return value


def _mark(on: Part, *, once: bool) -> Disarmed | None:
    node = on.given("disarmed")
    if node is None:
        return None
    if not isinstance(node.value, dict):
        on.refuse(
            "disarmed", 'must be an object with "at" and, if a run did it, "jobId"; delete it to arm again'
        )
    for key in node.value:
        if key not in {"at", "jobId"}:
            on.refuse("disarmed", f"holds the unknown key {shown(key)}; known are at, jobId")
    at, job = (_mark_text(on, node.value, key) for key in ("at", "jobId"))
    if at is None:
        on.refuse("disarmed", 'must hold "at", a text that is not empty: when it was used up')
    if not once:
        on.refuse("disarmed", "needs on.once: true; an entry that is no one-shot cannot be used up")
    return Disarmed(at, job)


def _mark_text(on: Part, mark: dict[str, Node], key: str) -> str | None:
    if key not in mark:
        return None
    value = mark[key].value
    if not isinstance(value, str) or not trim(value):
        on.refuse("disarmed", f'must hold "{key}" as a text that is not empty')
    return value
