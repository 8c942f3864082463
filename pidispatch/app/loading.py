"""Load what a long-lived process needs, without a look for garbage on the way. A module of its own: it is loaded first."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loading() -> Iterator[None]:
    """Imports make many objects that stay: they are looked through neither meanwhile nor later, nor at the end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
