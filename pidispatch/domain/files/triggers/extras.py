"""Read the keys that are ours: a stable id, the repositories, and what a second event does meanwhile."""

from pidispatch.domain.egress import NotAnEntry, read_entry
from pidispatch.domain.files.scopes import is_repository
from pidispatch.domain.files.triggers.cron import read_missed, read_zone, take_id
from pidispatch.domain.files.triggers.draft import Draft
from pidispatch.domain.files.triggers.nearmiss import NARROWING, OURS_ON, OURS_RUN, sweep
from pidispatch.domain.triggers import Missed, WhileRunning

PRIORITY_MIN, PRIORITY_MAX = -100, 100  # as in the runs table
EGRESS_MAX = 64


def sweep_extras(draft: Draft) -> None:
    for family in (OURS_ON, OURS_RUN, NARROWING):
        sweep((draft.on, draft.run, draft.entry), family)


def read_clock(draft: Draft) -> tuple[str | None, Missed]:
    """The zone of a schedule, and what becomes of what it missed; refused elsewhere."""
    if not draft.scheduled:
        for name in ("tz", "missed"):
            draft.on.forbid(name, f"goes with cron alone, and this is a {draft.type}; delete it")
    return read_zone(draft.on), read_missed(draft.on)


def read_identity(draft: Draft, scheduled_id: str | None) -> str | None:
    """The entry's id. A schedule has it in `on`, and may repeat it beside."""
    if draft.entry.node("id") is None:
        return scheduled_id
    if scheduled_id is None:
        return take_id(draft.entry, draft)
    if draft.entry.fields["id"].value != scheduled_id:
        draft.entry.refuse("id", "must be the same as on.id, or be left out")
    return scheduled_id


def read_repos(draft: Draft) -> tuple[str, ...]:
    """The repositories whose events count, spelled as the forge spells them; none is all of them."""
    on = draft.on
    if draft.scheduled:
        on.forbid("repo", "does not go with cron, which works in run.folder; delete it")
        return ()
    node = on.node("repo")
    if node is None:
        return ()
    items = node.value if isinstance(node.value, list) else [node]
    names = [item.value for item in items if isinstance(item.value, str)]
    if not names or len(names) != len(items):
        on.refuse("repo", "must be a repository as owner/name, or a list of at least one")
    for name in names:
        if "*" in name or not is_repository(name):
            on.refuse("repo", "must name each repository whole, as owner/name, without forge and without *")
    if len(set(names)) != len(names):
        on.refuse("repo", "names a repository twice")
    return tuple(names)


def read_while_running(draft: Draft) -> WhileRunning:
    node = draft.on.node("while_running")
    if node is None:
        return WhileRunning.QUEUE
    if not isinstance(node.value, str) or node.value not in set(WhileRunning):
        draft.on.refuse("while_running", f"must be one of {', '.join(WhileRunning)}")
    return WhileRunning(node.value)


def read_priority(draft: Draft) -> int:
    value = draft.run.whole("priority", minimum=PRIORITY_MIN, maximum=PRIORITY_MAX)
    return value or 0


def read_egress(draft: Draft) -> tuple[str, ...] | None:
    """Hosts that its runs may reach besides those of the allowlist, written as there."""
    run = draft.run
    node = run.node("egress")
    if node is None:
        return None
    if not isinstance(node.value, list) or not 1 <= len(node.value) <= EGRESS_MAX:
        run.refuse("egress", f"must be a list of 1 to {EGRESS_MAX} hosts; leave it out for none")
    entries: list[str] = []
    for index, item in enumerate(node.value):
        if not isinstance(item.value, str):
            run.refuse(f"egress[{index}]", "must be a text, such as example.com or @npm")
        try:
            read_entry(item.value)
        except NotAnEntry as error:
            run.refuse(f"egress[{index}]", str(error))
        entries.append(item.value)
    return tuple(entries)
