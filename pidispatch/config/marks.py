"""Mark what is particular about a setting, beside its type."""

from enum import Enum, auto


class Mark(Enum):
    EMPTY_IS_SET = auto()
    """An empty text is a value (which its grammar refuses), where elsewhere it means unset."""
    HIDDEN = auto()
    """A text that was refused may hold a secret; an accepted one is printed without it."""
    SECRET = auto()
    """Never printed: shown as `set` or `unset`."""
    SIZE = auto()
    """Bytes, printed as a size."""
    DOLLARS = auto()
    """Micro-dollars, printed as dollars."""
