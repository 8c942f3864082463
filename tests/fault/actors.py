"""What `dramatiq tests.fault.actors` loads: the product's actors, with failpoints on the steps of a worker."""

import os

from pidispatch.admit.gate import AdmissionGate
from pidispatch.execute.finish import Finisher
from pidispatch.gateway.client import ControlDoors
from pidispatch.runtime.docker import DockerBoxes
from pidispatch.runtime.engine import Engine
from pidispatch.runtime.mounts import DockerMounts
from pidispatch.store.endings import PostgresEndings
from pidispatch.store.runs import PostgresRuns
from tests.fault.clock import move_time
from tests.fault.failpoints import hold_after, hold_before

Engine.__init__.__defaults__ = (os.environ.get("DOCKER_HOST"),)  # a private engine, where a cell kills one
move_time()
hold_after(AdmissionGate, "admit", "admitted")
hold_after(PostgresRuns, "preparing", "preparing")
hold_after(ControlDoors, "open", "door-open")
hold_after(DockerBoxes, "create", "box-created")
hold_before(DockerMounts, "check", "box-started")
hold_after(PostgresRuns, "boxed", "boxed")
hold_before(Finisher, "finish", "exited")
hold_after(PostgresRuns, "finishing", "finishing")
hold_after(PostgresEndings, "end", "ended-not-cleaned")

from pidispatch.actors import app, broker  # noqa: E402, F401 - after the methods have been wrapped
