"""Refuse to forward a variable into the box that pidispatch itself sets there or keeps out of it."""

import re
from collections.abc import Collection, Mapping

from pidispatch.config.grammar import Unwanted, comma_list
from pidispatch.domain.box.names import BOX_NAMES, EGRESS_NAMES, MINTED_NAMES, WORKER_SECRETS
from pidispatch.domain.providers.known import all_key_names
from pidispatch.errors import ConfigurationRefused

MOST_NAMES = 100
MOST_BYTES = 64 * 1024  # the kernel takes 128 KiB in one variable
# What decides how programs start: a path of this host means nothing in the box, and pi is one of the programs.
_LOADERS = ("LD_", "DYLD_", "NODE_", "BASH_FUNC_")
_LOADER_NAMES = {"PATH", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "GCONV_PATH"}
_HARMLESS = {"NODE_ENV"}
_OURS = ("PI_", "PIDISPATCH_")


def forwarded_names(text: str) -> tuple[str, ...]:
    """Names of host variables to hand to the box, none of which may override what pidispatch puts there."""
    names = comma_list(text)
    malformed = [name for name in names if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,127}", name)]
    if malformed:
        raise Unwanted("names of variables between commas, without their values", hide=True)
    if len(names) > MOST_NAMES:
        raise Unwanted(f"at most {MOST_NAMES} names")
    _refuse(names, MINTED_NAMES, "the token that pidispatch mints for each job would be overridden")
    _refuse(names, WORKER_SECRETS, "it is a secret of the worker")
    _refuse(names, all_key_names(), "the keys of providers stay in the gateway")
    _refuse(names, EGRESS_NAMES, "it says which way out of the box there is, which pidispatch decides")
    _refuse(names, BOX_NAMES, "pidispatch sets it in the box itself")
    ours = {name for name in names if name.startswith(_OURS)}
    _refuse(names, ours, "it is read by pidispatch or by pi itself")
    loaders = {name for name in names if name in _LOADER_NAMES or name.startswith(_LOADERS)}
    _refuse(names, loaders - _HARMLESS, "it decides how pi and every other program in the box start")
    return names


def forwarded_values(
    names: Collection[str], environ: Mapping[str, str], *, keys: Collection[str]
) -> dict[str, str]:
    """The variables of `names` that are set and not empty. `keys` are all names that may hold a provider's key.

    Raises ConfigurationRefused, and shows no value.
    """
    problems = [
        f"PI_FORWARD_ENV names {name}: the keys of providers stay in the gateway"
        for name in names
        if name in keys
    ]
    values = {name: environ[name] for name in names if environ.get(name)}
    size = sum(len(name) + len(value.encode("utf-8", "surrogateescape")) for name, value in values.items())
    if size > MOST_BYTES:
        problems.append(f"the variables of PI_FORWARD_ENV hold {size} bytes; want at most {MOST_BYTES}")
    if problems:
        raise ConfigurationRefused(problems)
    return values


def _refuse(names: tuple[str, ...], refused: Collection[str], reason: str) -> None:
    found = [name for name in names if name in refused]
    if found:
        raise Unwanted(f"it without {', '.join(found)}: {reason}")
