"""Keep two requests of a test within one minute of the wall clock, where that is what makes them the same."""

import time

ENOUGH = 15  # seconds that two requests may take on a busy machine


def early_in_a_minute() -> None:
    """Return when at least `ENOUGH` seconds of the minute are left."""
    while (left := 60 - time.time() % 60) < ENOUGH:
        time.sleep(left)
