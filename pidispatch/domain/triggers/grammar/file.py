"""Parse `triggers.json`: what starts runs, and what they do."""

from pidispatch.domain.forges.table import FORGES, KINDS, LOCAL
from pidispatch.domain.text.fields import Report, root_entry
from pidispatch.domain.text.jsonfile import Node, read_json, shown
from pidispatch.domain.triggers.grammar.cron import read_pattern, take_id
from pidispatch.domain.triggers.grammar.draft import Draft, SeenEntries
from pidispatch.domain.triggers.grammar.extras import (
    read_clock,
    read_identity,
    read_repos,
    read_while_running,
    sweep_extras,
)
from pidispatch.domain.triggers.grammar.nearmiss import MISPLACED
from pidispatch.domain.triggers.grammar.on import read_event
from pidispatch.domain.triggers.grammar.part import EntryStopped, Part
from pidispatch.domain.triggers.grammar.run import read_work
from pidispatch.domain.triggers.trigger import Cron, Disarmed, On, Trigger, Triggers, TriggerType
from pidispatch.errors import ConfigurationRefused


def parse_triggers(content: bytes, file: str) -> Triggers:
    """The entries of the file. Raises ConfigurationRefused with the first problem of each entry that has one."""
    report = Report(file)
    wanted = 'an object with "triggers"'
    root_node = read_json(content, file)
    entries = root_entry(root_node, report, wanted).fields.get("triggers")
    if entries is None or not isinstance(entries.value, list):
        line = root_node.line if entries is None else entries.line
        raise ConfigurationRefused([f'{file}:{line}: "triggers" must be a list of entries'])
    root = Part(report, "the file", "", root_entry(root_node, report, wanted).fields, root_node.line)
    root.given("triggers")
    seen = SeenEntries()
    found = [_trigger(report, index, node, seen) for index, node in enumerate(entries.value)]
    root.drop_unknown()
    report.close()
    triggers = tuple(trigger for trigger in found if trigger is not None)
    _note_twins(triggers, report)
    return Triggers(triggers, tuple(report.notes))


def _trigger(report: Report, index: int, node: Node, seen: SeenEntries) -> Trigger | None:
    try:
        return _read(_draft(report, index, node, seen))
    except EntryStopped:
        return None


def _draft(report: Report, index: int, node: Node, seen: SeenEntries) -> Draft:
    """The entry as far as the matrix of types and kinds goes: it says who may start what."""
    where = f"triggers[{index}]{_called(node)}"
    if not isinstance(node.value, dict):
        report.refuse(node.line, f"{where}: must be an object")
        raise EntryStopped
    entry = Part(report, where, "", node.value, node.line)
    on, run = _object(entry, "on"), _object(entry, "run")
    kind_of_event = TriggerType(_word(on, "type", tuple(TriggerType)))
    kind = _word(run, "kind", KINDS)
    if kind_of_event is TriggerType.CRON and kind != LOCAL:
        run.refuse(
            "kind", "must be local with cron: a schedule has no event, number, title or text of a forge"
        )
    if kind_of_event is not TriggerType.CRON and kind == LOCAL:
        run.refuse(
            "kind", f"must be one of {', '.join(FORGES)}: only a forge's event starts a {kind_of_event}"
        )
    return Draft(index, kind_of_event, kind, entry, on, run, seen)


def _object(entry: Part, name: str) -> Part:
    node = entry.given(name)
    if node is None or not isinstance(node.value, dict):
        entry.refuse(name, "must be an object")
    return Part(entry.report, entry.where, name, node.value, node.line)


def _word(part: Part, name: str, known: tuple[str, ...]) -> str:
    node = part.given(name)
    if node is None or not isinstance(node.value, str) or node.value not in known:
        told = f", not {shown(node.value)}" if node is not None and isinstance(node.value, str) else ""
        part.refuse(name, f"must be one of {', '.join(known)}{told}")
    return node.value


def _read(draft: Draft) -> Trigger:
    disarmed: Disarmed | None = None
    on: On
    scheduled_id: str | None = None
    if draft.scheduled:
        scheduled_id = take_id(draft.on, draft)
        on = Cron(read_pattern(draft.on))
    else:
        draft.run.forbid(
            "portfolio", "goes with cron alone: a budget must not come from what strangers write"
        )
        on, disarmed = read_event(draft)
    work = read_work(draft)
    sweep_extras(draft)
    zone, missed = read_clock(draft)
    if isinstance(on, Cron):
        on = Cron(on.pattern, zone, missed)
    trigger = Trigger(
        index=draft.index,
        line=draft.entry.line,
        on=on,
        work=work,
        id=read_identity(draft, scheduled_id),
        repos=read_repos(draft),
        while_running=read_while_running(draft),
        disarmed=disarmed,
    )
    _note(draft, trigger)
    return trigger


def _note(draft: Draft, trigger: Trigger) -> None:
    for part in (draft.entry, draft.on, draft.run):
        part.drop_unknown()
    for key in draft.entry.unknown():
        if any(family.meant_by(key) for family in MISPLACED):
            draft.entry.report.note(
                draft.entry.fields[key].line, f"{draft.entry.where}: {shown(key)} belongs under run"
            )
    if getattr(trigger.on, "number", None) is not None and not trigger.repos:
        draft.on.report.note(
            draft.on.fields["number"].line,
            f"{draft.on.where}: on.number without on.repo counts in every repository of the forge",
        )


def _note_twins(triggers: tuple[Trigger, ...], report: Report) -> None:
    """Two entries that only their place tells apart share what is kept of them, such as a one-shot being spent."""
    first: dict[str, int] = {}
    for trigger in triggers:
        other = first.setdefault(trigger.identity, trigger.index)
        if other != trigger.index:
            report.note(
                trigger.line,
                f"triggers[{trigger.index}]: cannot be told from triggers[{other}] when they move; give each an id",
            )


def _called(node: Node) -> str:
    """` (id "nightly")`, as far as it can be told before anything is checked."""
    if not isinstance(node.value, dict):
        return ""
    on = node.value.get("on")
    places = (on.value if on is not None and isinstance(on.value, dict) else {}, node.value)
    for fields in places:
        identity = fields.get("id")
        if identity is not None and isinstance(identity.value, str):
            return f" (id {shown(identity.value)})"
    return ""
