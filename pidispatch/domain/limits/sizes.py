"""Parse the size of a job: memory in MiB, processors in hundredths."""

import re

from pidispatch.domain.text.jsonfile import Number

MEMORY_WANTED = "must be a size from 512m to 1024g, such as 768m or 4g"
CPUS_WANTED = "must be a number from 0.25 to 256 with at most 2 decimals"


def memory_mib(value: object) -> int | None:
    """MiB of a text such as `768m` or `4g`; None when it is none or out of bounds."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-9][0-9]{0,8}[mg]", value):
        return None
    size = int(value[:-1]) * (1024 if value.endswith("g") else 1)
    return size if 512 <= size <= 1024 * 1024 else None


def cpu_hundredths(value: object) -> int | None:
    """Hundredths of a processor, of a number or a text such as `1.5`; None when it is none or out of bounds."""
    text = value.text if isinstance(value, Number) else value
    found = re.fullmatch(r"(0|[1-9][0-9]{0,2})(?:\.([0-9]{1,2}))?", text) if isinstance(text, str) else None
    if found is None:
        return None
    size = int(found[1]) * 100 + int((found[2] or "").ljust(2, "0"))
    return size if 25 <= size <= 25_600 else None
