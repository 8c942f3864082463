"""Say which hosts runs may reach: the file in force, and what it makes of a host."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pidispatch.config import Settings
from pidispatch.domain.egress.allowlist import FILE_NAME, Allowlist, Ruling, parse_allowlist
from pidispatch.domain.egress.hostname import Target, read_target
from pidispatch.domain.files.inforce import FileName
from pidispatch.errors import ConfigurationRefused
from pidispatch.files import LiveFile
from pidispatch.ports import KeptFiles

HTTPS = 443


@dataclass(frozen=True, slots=True)
class EgressState:
    """What is in force. `off_because` is None while egress is on; `found` whether there is a file at all.

    `problems` are those of a file that an earlier content stands in for.
    """

    file: Path
    found: bool
    off_because: str | None
    allowlist: Allowlist
    problems: tuple[str, ...] = ()


def egress_file(settings: Settings) -> Path:
    return settings.egress_file or settings.home / FILE_NAME


def allowlist_in_force(settings: Settings, kept: KeptFiles | None = None) -> Callable[[], Allowlist]:
    """What to ask at each connection; an edit holds from the next one on. `kept` is where the last good one is.

    Raises ConfigurationRefused for a bad file that nothing stands in for.
    """
    if not settings.egress:
        return partial(Allowlist, everything=True)
    file = _live(settings, kept)
    file.load()
    return file.current


def state(settings: Settings, kept: KeptFiles | None = None) -> EgressState:
    """As a gateway that starts now would have it. Raises ConfigurationRefused."""
    path = egress_file(settings)
    off = None if settings.egress else settings.egress_off_because or ""
    if off is not None:
        return EgressState(path, path.exists(), off, Allowlist(everything=True))
    file = _live(settings, kept)
    allowlist = file.load()
    return EgressState(path, path.exists(), off, allowlist, tuple(file.not_in_force()))


def judge(settings: Settings, host: str) -> tuple[Target, Ruling]:
    """What becomes of HOST[:PORT], as far as its name tells: its addresses are looked at when a run asks.

    Raises ConfigurationRefused, also for what is no host.
    """
    target = read_target(host, HTTPS)
    if target is None:
        raise ConfigurationRefused([f"{host!r} is no host, or host:port"])
    return target, state(settings).allowlist.judge(target)


def _live(settings: Settings, kept: KeptFiles | None) -> LiveFile[Allowlist]:
    path = egress_file(settings)
    # A file that the operator named must be there at the start; without one in the home, nothing is let through.
    missing = Allowlist() if settings.egress_file is None else None
    return LiveFile(
        FileName.EGRESS,
        path,
        lambda content: parse_allowlist(content, str(path)),
        missing=missing,
        removed=Allowlist(),
        kept=kept,
    )
