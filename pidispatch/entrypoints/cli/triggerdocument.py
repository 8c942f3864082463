"""Tell programs of the entries of the triggers file, and everybody what is wrong with it."""

from typing import TYPE_CHECKING

from pidispatch.entrypoints.cli.output import err, plain

if TYPE_CHECKING:
    from pidispatch.app.triggers import ShownTriggers, Told

STAYS = "a worker that runs keeps the last good edit; one that starts is refused"


def exit_code(found: "ShownTriggers") -> int:
    """What a command that tells of triggers ends with: the file is bad, the rows cannot be asked, or all is well."""
    return 2 if found.problems else 1 if found.without_rows else 0


def say_problems(found: "ShownTriggers") -> None:
    """What is wrong with the file as it is, and what holds meanwhile; on standard error."""
    for problem in found.problems:
        err.print(plain(f"pidispatch: {problem}"))
    if found.problems:
        err.print(plain(f"the file is not in force: {STAYS}; `pidispatch check FILE` judges an edit"))


def about(found: "ShownTriggers") -> dict[str, object]:
    """What every document says beside the entries."""
    return {
        "file": found.file,
        "file_problems": list(found.problems),
        "notes": list(found.notes),
        "without_rows": found.without_rows,
    }


def document_of(told: "Told") -> dict[str, object]:
    """One entry for programs; `on` and `run` are as in the file."""
    from pidispatch.domain.triggers.grammar.printing import entry_document

    trigger = told.trigger
    written = entry_document(trigger) if trigger is not None else {}
    return {
        "id": told.id,
        "index": trigger.index if trigger is not None else None,
        "line": trigger.line if trigger is not None else None,
        "type": trigger.type if trigger is not None else "cron",
        "on": written.get("on"),
        "run": written.get("run"),
        "while_running": trigger.while_running if trigger is not None else None,
        "priority": trigger.work.ask.priority if trigger is not None else None,
        "not_enforced": list(told.not_enforced),
        "zone": told.timetable.zone if told.timetable is not None else None,
        "next_at": told.next_at,
        "in_force": told.in_force,
        "schedule": told.record,
        "last_slot": told.last,
        "breaker": told.breaker,
    }
