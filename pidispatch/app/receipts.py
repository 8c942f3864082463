"""Read what a receipt shows beside what was stored: without it the receipt is given all the same."""

from collections.abc import Callable
from typing import TypeVar

from pidispatch.errors import PidispatchError

T = TypeVar("T")


def read_after(read: Callable[[], T]) -> tuple[T | None, str | None]:
    """What was read after a commit, or the sentence why it could not be: an error here would deny what was stored."""
    try:
        return read(), None
    except PidispatchError as error:
        return None, str(error)
