"""List the doors that have a directory on this host, for those who clean up."""

import os
from pathlib import Path


def open_doors(run_dir: Path) -> list[int]:
    """The run keys with a directory below `<run dir>/g`; anything else that lies there is not ours to judge."""
    try:
        return sorted(int(entry.name) for entry in os.scandir(run_dir / "g") if entry.name.isdecimal())
    except FileNotFoundError:
        return []
