"""Say in words what an entry of the triggers file waits for, does, and did."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from pidispatch.domain.forges.table import LOCAL
from pidispatch.domain.triggers.trigger import (
    CommentEvent,
    Cron,
    IssueEvent,
    LabelEvent,
    Labels,
    PullRequestEvent,
    Trigger,
)
from pidispatch.entrypoints.cli.output import cell

if TYPE_CHECKING:
    from pidispatch.app.triggers import BreakerRecord, SlotRecord, Told
    from pidispatch.domain.schedules.upcoming import Coming


def starts(told: "Told") -> str | None:
    """What the entry does, or why it starts nothing; None where only the rows know it."""
    if told.trigger is None:
        return None
    if told.not_enforced:
        keys = ", ".join(f"run.{key}" for key in told.not_enforced)
        return f"nothing, since {keys} is not enforced yet; else {does(told.trigger)}"
    return does(told.trigger)


def does(trigger: Trigger) -> str:
    """`flow tidy in /srv/site`, `/report weekly in /srv/site`, `flow fix for github`."""
    work = trigger.work
    what = does_in_words(work.ask.command, work.ask.flow)
    return f"{what} in {work.folder}" if work.kind == LOCAL else f"{what} for {work.kind}"


def does_in_words(command: str | None, flow: str | None) -> str:
    return f"/{command}" if command is not None else f"flow {flow}"


def waits_for(trigger: Trigger) -> str:
    """The event that starts it, or the pattern of its instants."""
    match trigger.on:
        case Cron(pattern):
            return pattern
        case LabelEvent(labels):
            what = f"the label {labels_in_words(labels)}"
        case CommentEvent(phrase):
            what = f"a comment with {phrase!r}"
        case PullRequestEvent():
            words = [_item("pull request", trigger.on), labels_in_words(trigger.on.labels)]
            if trigger.on.review_states:
                words.append(f"as {' or '.join(trigger.on.review_states)}")
            what = ", ".join(word for word in words if word)
        case IssueEvent():
            what = _item("issue", trigger.on)
    where = f" in {', '.join(trigger.repos)}" if trigger.repos else ""
    used_up = f"; used up at {trigger.disarmed.at}" if trigger.disarmed is not None else ""
    return f"{what}{where}{used_up}"


def labels_in_words(labels: Labels) -> str:
    parts = (
        " or ".join(labels.any_of),
        " and ".join(labels.all_of),
        f"not {' nor '.join(labels.none_of)}" if labels.none_of else "",
    )
    return ", ".join(part for part in parts if part)


def _item(what: str, on: PullRequestEvent | IssueEvent) -> str:
    """`an issue closed`, `issue #12 closed, once`."""
    article = "an" if what.startswith("i") else "a"
    item = f"{article} {what}" if on.number is None else f"{what} #{on.number}"
    return f"{item} {' or '.join(on.actions)}{', once' if on.once else ''}"


def at_place(moment: datetime | None, zone: str | None, *, named: bool = True) -> str | None:
    """`2026-11-30 03:00:00 Europe/Berlin`; UTC where the zone is not known here."""
    if moment is None:
        return None
    try:
        local = moment.astimezone(ZoneInfo(zone or "UTC"))
    except (KeyError, ValueError, OSError):
        local, zone = moment.astimezone(UTC), None
    return f"{local:%Y-%m-%d %H:%M:%S}" + (f" {zone or 'UTC'}" if named or zone is None else "")


def planner(told: "Told", *, readable: bool) -> str | None:
    """The host that plans it, and what is wrong with that. `readable`: the file could be read."""
    if told.timetable is None or told.in_force is None:
        return None
    record = told.record
    if record is None:
        return "none yet"
    faults = [
        word
        for word, true in (
            ("silent", not record.alive),
            ("without its folder", not record.served),
            ("by an earlier edit", not told.in_force),
            ("not in this file", readable and told.trigger is None),
        )
        if true
    ]
    return f"{record.host} ({', '.join(faults)})" if faults else record.host


def failures_of(breaker: "BreakerRecord | None") -> str | None:
    """`3 in a row: infra, held back until 2026-11-29 03:00:00Z`; None while the last run went well."""
    if breaker is None:
        return None
    counted = f"{breaker.failures:,} in a row: {breaker.reason}"
    if not breaker.is_open:
        return counted
    tries = f", {breaker.probe} tries" if breaker.probe else f" until {cell(breaker.probe_at)}"
    return f"{counted}, held back{tries}"


def slot_state(slot: "SlotRecord") -> str:
    """`ran`, `deferred: catch-up`, `skipped: late`."""
    return f"{slot.state}: {slot.reason}" if slot.reason else slot.state


def run_of(slot: "SlotRecord") -> str | None:
    """`repeat:nightly:1764… completed`, `… deferred: scope`; None where nothing was started."""
    if slot.run is None:
        return None
    if slot.outcome is not None:
        detail = f": {slot.run_reason}" if slot.run_reason not in {None, slot.outcome} else ""
        return f"{slot.run} {slot.outcome}{detail}"
    waits = f": {slot.cause}" if slot.cause else ""
    return f"{slot.run} {slot.run_state}{waits}" + (
        f" until {cell(slot.not_before)}" if slot.not_before else ""
    )


def late(slot: "SlotRecord") -> str | None:
    """How long after its instant the run got its go; None for what has not started."""
    return None if slot.started_at is None else length(slot.started_at - slot.planned_at)


def length(time: timedelta) -> str:
    """`0.4 s`, `12 s`, `5 min 3 s`, `3 h 20 min`, `2 d 4 h`: two units at most."""
    seconds = time.total_seconds()
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, name, below, its_name in (
        (86_400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= unit:
            rest = whole % unit // below
            return f"{whole // unit:,} {name}" + (f" {rest} {its_name}" if rest else "")
    return f"{whole} s"


def clock_note(instant: "Coming") -> str:
    """What the zone's clock did since the instant before."""
    change = instant.change
    if change is None:
        return ""
    way = "forward" if change.seconds > 0 else "back"
    moved = f"the clock goes {way} {length(timedelta(seconds=abs(change.seconds)))}"
    if instant.skipped:
        return f"{moved} over the time it names: due at the end of the gap"
    return f"{moved} before, at {change.at:%Y-%m-%d %H:%M:%SZ}"
