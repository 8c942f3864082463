"""Turn amounts of dollars into integer micro-dollars and back."""

import re

MICROS = 1_000_000  # micro-dollars in a dollar
USD_MAX = 1_000_000
WANTED = f"an amount of US dollars above 0 and up to {USD_MAX}, with at most 6 decimals"
WANTED_OR_ZERO = f"an amount of US dollars from 0 to {USD_MAX}, with at most 6 decimals"

_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,6})(?:\.([0-9]{1,6}))?")


def micros_of(text: str) -> int | None:
    """Micro-dollars of an amount such as `12.5`; None when it is none, is 0, or is above a million dollars."""
    return micros_or_zero_of(text) or None


def micros_or_zero_of(text: str) -> int | None:
    """The same, where 0 is an amount."""
    found = _AMOUNT.fullmatch(text)
    if found is None:
        return None
    micros = int(found[1]) * MICROS + int((found[2] or "").ljust(6, "0"))
    return micros if micros <= USD_MAX * MICROS else None


def dollars(micros: int) -> str:
    """The shortest amount that reads back as these micro-dollars: `12.5`, `3`, `0.000001`."""
    whole, rest = divmod(abs(micros), MICROS)
    sign = "-" if micros < 0 else ""
    return f"{sign}{whole}" + (f".{rest:06d}".rstrip("0") if rest else "")
