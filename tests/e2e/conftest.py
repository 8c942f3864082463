import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from pidispatch.entrypoints.scripted import ScriptedProvider
from tests.e2e.installation import Installation


def an_installation() -> Iterator[Installation]:
    """One of the caller's own, not started."""
    root = Path(tempfile.mkdtemp(prefix="pd-", dir="/tmp"))
    root.chmod(0o711)
    with ScriptedProvider() as provider:
        installation = Installation(root, provider)
        try:
            yield installation
        finally:
            if installation.process is not None and installation.process.poll() is None:
                installation.stop()
            installation.close()
            shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def installation() -> Iterator[Installation]:
    """One running installation for all tests that do not break it."""
    for made in an_installation():
        # What agents ask for runs with the model that is set; the tests name theirs.
        made.environment |= {"PI_CHAIN_DEPTH_MAX": "2", "PI_MODEL": "chain"}
        made.start()
        yield made
