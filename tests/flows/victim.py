"""A worker that dies over a run."""

import os
import signal

from pidispatch.services.lifelines import Lifelines
from pidispatch.services.notes import WorkerNotes
from pidispatch.store.database import Database
from tests.flows.site import Site
from tests.support.boxes import a_box
from tests.support.image import IMAGE


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def main(url, folder, worker, step, run_id):
    lifelines = Lifelines(folder)
    lifelines.hold(worker)
    site = Site(Database(url), notes=WorkerNotes(lifelines))
    box = site.boxes.create(a_box(site.installation, IMAGE))
    site.boxes.finish(box)
    ended = site.boxes.inspect(box)
    site.boxes.inspect = lambda _: ended
    match step:
        case "folder":
            site.gate._checks._open_folder = die
        case "transaction":
            site.gate._admissions.admit = die
        case "gateway":
            site.doors.provider = site.doors.close = die
        case "tail":
            site.boxes.tail = die
        case "record":
            site.endings.end = die
    if run_id:
        site.finisher.finish(run_id)
    else:
        site.gate.admit()
