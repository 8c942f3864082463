"""Refuse to forward a variable into the box that pidispatch itself sets there or keeps out of it."""

import re

from pidispatch.config.grammar import Unwanted, comma_list
from pidispatch.domain.boxnames import BOX_NAMES, BOX_PREFIX, MINTED_NAMES, WORKER_SECRETS


def forwarded_names(text: str) -> tuple[str, ...]:
    """Names of host variables to hand to the box, none of which may override what pidispatch puts there."""
    names = comma_list(text)
    malformed = [name for name in names if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
    if malformed:
        raise Unwanted("names of variables between commas, without their values", hide=True)
    _refuse(names, MINTED_NAMES, "the token that pidispatch mints for each job would be overridden")
    _refuse(names, WORKER_SECRETS, "it is a secret of the worker")
    taken = frozenset(name for name in names if name in BOX_NAMES or name.startswith(BOX_PREFIX))
    _refuse(names, taken, "pidispatch sets it in the box itself")
    return names


def _refuse(names: tuple[str, ...], refused: frozenset[str], reason: str) -> None:
    found = [name for name in names if name in refused]
    if found:
        raise Unwanted(f"it without {', '.join(found)}: {reason}")
