"""Name the place of this process: the boot of its machine, and the run directory that its neighbours share."""

import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

BOOT = Path("/proc/sys/kernel/random/boot_id")  # of the kernel, so the same in every container: random(4)
NAME = "place"
_TOKEN = re.compile(r"[0-9a-f]{16}")


def place_of(run_dir: Path) -> str:
    """`<boot>/<token>`: the token lies in the run directory, which is made if it is missing.

    Two machines never have the same, not even copies of one another; two run directories on one machine neither, since
    each has its own gateway and doors. A part that cannot be known is `-`.
    """
    return f"{_boot()}/{_token(run_dir)}"


def _boot() -> str:
    try:
        return BOOT.read_text(encoding="ascii").strip()[:36] or "-"
    except (OSError, ValueError):
        return "-"


def _token(run_dir: Path) -> str:
    file = run_dir / NAME
    with suppress(OSError):
        run_dir.parent.mkdir(parents=True, exist_ok=True)
        run_dir.mkdir(mode=0o700, exist_ok=True)
        _write_once(file)
    with suppress(OSError, ValueError):
        found = file.read_text(encoding="ascii").strip()
        if _TOKEN.fullmatch(found):
            return found
    return "-"


def _write_once(file: Path) -> None:
    """The first of several wins, and nobody reads half a token."""
    if os.path.lexists(file):
        return
    own = file.with_name(f"{NAME}.{secrets.token_hex(4)}")
    own.write_text(secrets.token_hex(8), encoding="ascii")
    try:
        with suppress(FileExistsError):
            os.link(own, file)
    finally:
        own.unlink(missing_ok=True)
