"""What `dramatiq tests.fault.stubactors` loads: the product's actors, with stub boxes where Docker would be.

Redis, Postgres, the gateway and the files are real.
"""

from pidispatch.app import adapters, worker
from tests.fakes.mounts import FakeMounts
from tests.fakes.outside import FakeImages
from tests.fault.stubs import NoHelpers, stub_boxes

adapters.DockerBoxes = stub_boxes
adapters.DockerMounts = lambda *_: FakeMounts()
adapters.DockerImages = lambda engine: FakeImages()
worker.DockerGitBox = NoHelpers

from pidispatch.actors import app, broker  # noqa: E402, F401 - after the names have been replaced
