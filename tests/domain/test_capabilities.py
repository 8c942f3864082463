"""What a run needs of its image."""

import pytest

from pidispatch.domain.runs.capabilities import LABEL, lacking


@pytest.mark.parametrize(
    ("declared", "needed", "word"),
    [
        (None, [], None),
        ("", ["replicas"], "job-image-replicas-unsupported"),
        (None, ["excludeTools"], "job-image-exclude-tools-unsupported"),
        ("report, replicas", ["replicas"], None),
        ("no-replicas,replicas2", ["replicas"], "job-image-replicas-unsupported"),
        ("replicas", ["replicas", "excludeTools"], "job-image-exclude-tools-unsupported"),
        ("", ["excludeTools", "commands", "replicas"], "job-image-replicas-unsupported"),
        ("replicas", ["excludeTools", "commands"], "job-image-commands-unsupported"),
    ],
)
def test_the_first_that_the_image_lacks_is_told(declared, needed, word):
    labels = {} if declared is None else {LABEL: declared}

    assert lacking(labels, needed) == word
