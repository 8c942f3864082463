"""How much of a test is done: a part of it on a person's machine, all of it at night (`make nightly`)."""

import os

NIGHTLY = os.environ.get("PIDISPATCH_NIGHTLY") == "1"


def scaled(usual: int, *, nightly: int) -> int:
    """So many rounds, cases or bytes; the same behaviour is held with either."""
    return nightly if NIGHTLY else usual
