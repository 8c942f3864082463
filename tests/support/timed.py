"""Schedules for tests: entries as a parser would make them, and folders that need no disk."""

import zlib
from datetime import timedelta

from pidispatch.domain.box.facts import LocalFolder
from pidispatch.domain.triggers.inforce import Zone, Zones, standing_of
from pidispatch.domain.triggers.trigger import Cron, Missed, Trigger, Triggers, WhileRunning
from pidispatch.errors import FolderRefused
from pidispatch.store.triggers.schedules import Schedules
from pidispatch.upkeep.scheduledruns import ScheduledRuns
from tests.support.asking import work_of

HOST = "h1"
UTC_EVERYWHERE = Zones(Zone(HOST, "UTC"))


def an_entry(
    name="nightly",
    pattern="30 2 * * *",
    tz="UTC",
    missed=Missed.ONCE,
    index=0,
    policy=WhileRunning.QUEUE,
    **work,
):
    asked = {"folder": f"/repos/{name}", "flow": "tidy", "task": "Tidy up", **work}
    on, told = Cron(pattern, tz, missed), work_of("local", **asked)
    return Trigger(index, index + 3, on, told, id=name, while_running=policy)


def the_file(*entries):
    return Triggers(tuple(entries))


def standing(*entries):
    return standing_of(the_file(*entries), UTC_EVERYWHERE)


class Folders:
    """Any name but those in `missing` is a folder."""

    def __init__(self):
        self.missing = set()

    def __call__(self, path):
        name = path.decode()
        if name in self.missing:
            raise FolderRefused("local-folder-missing", f"{name} does not exist")
        return LocalFolder(name, 1, zlib.crc32(path), 1000, 1000, name.rsplit("/", 1)[-1])


def the_schedules(database, host=HOST, folders=None):
    return Schedules(database, host=host, make=ScheduledRuns(host=host, open_folder=folders or Folders()))


def synced(schedules, now, *entries):
    found = standing(*entries)
    return schedules.sync(lambda: found, now)


def planned(schedules, known, now):
    """Plan until nothing is due; returns every answer that did something."""
    answers = []
    while (answer := schedules.plan(known, now)).due:
        answers.append(answer)
    return answers


MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
