"""Find the folders that ship with pidispatch: beside the package in a checkout, inside it when installed."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """The folder `migrations` or `image`. Raises FileNotFoundError when the installation lacks it."""
    for candidate in (_PACKAGE / "_shipped" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    raise FileNotFoundError(f"this installation of pidispatch has no folder {name!r}")
