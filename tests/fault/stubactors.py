"""What `dramatiq tests.fault.stubactors` loads: the product's actors, with stub boxes where Docker would be.

Redis, Postgres, the gateway and the files are real.
"""

from pidispatch.runtime.dockerruntime import DockerRuntime
from tests.fakes.mounts import FakeMounts
from tests.fakes.outside import FakeImages
from tests.fault.stubs import NoHelpers, stub_boxes

DockerRuntime.boxes = stub_boxes()
DockerRuntime.mounts = FakeMounts()
DockerRuntime.images = FakeImages()
DockerRuntime.git_box = lambda runtime, installation: NoHelpers()

from pidispatch.actors import app, broker  # noqa: E402, F401 - after the parts have been replaced
