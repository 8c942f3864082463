"""Decide which hosts a run may reach: the entries of an allowlist, and a target beside them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from pidispatch.domain.egress.hostname import PORT, Target, normal_host, split_port
from pidispatch.domain.egress.publicaddress import is_public, read_address
from pidispatch.domain.forges.table import FORGES
from pidispatch.domain.text.jsonfile import shown
from pidispatch.errors import ConfigurationRefused

FILE_NAME = "egress-allowlist.conf"
LINES_MAX = 10_000


PRESETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        **{forge.name: forge.hosts for forge in FORGES.values() if forge.hosts},
        "bitbucket": ("bitbucket.org", "api.bitbucket.org"),
        "codeberg": ("codeberg.org",),
        "npm": ("registry.npmjs.org",),
        "yarn": ("registry.yarnpkg.com", "repo.yarnpkg.com"),
        "pypi": ("pypi.org", "files.pythonhosted.org"),
        "crates": ("crates.io", "index.crates.io", "static.crates.io"),
        "rust": ("static.rust-lang.org",),
        "golang": ("proxy.golang.org", "sum.golang.org", "go.dev", "golang.org"),
        "maven": ("repo.maven.apache.org", "repo1.maven.org"),
        "gradle": ("plugins.gradle.org", "services.gradle.org", "downloads.gradle.org"),
        "nuget": ("api.nuget.org", "www.nuget.org"),
        "rubygems": ("rubygems.org", "index.rubygems.org"),
        "packagist": ("packagist.org", "repo.packagist.org"),
        "hex": ("hex.pm", "repo.hex.pm", "builds.hex.pm"),
        "debian": ("deb.debian.org", "security.debian.org"),
        "ubuntu": ("archive.ubuntu.com", "security.ubuntu.com", "ports.ubuntu.com"),
        "alpine": ("dl-cdn.alpinelinux.org",),
    }
)


USUAL_PORTS = (443, 80)
MOST_HOSTS = 100  # of one kind, let through or blocked, that are kept of one run; all others become one
ELSEWHERE = Target("*", 0)
ENTRY_MAX = 300
WANTED = "a host, .host for it and what is below it, an address, each with :port if need be, or @preset"


class NotAnEntry(ValueError):
    """The text is no entry of an allowlist; its words say why."""


class Reason(StrEnum):
    """Why a run's try to reach a host was let through or not."""

    LISTED = "listed"
    OPEN = "open"
    NOT_LISTED = "not-listed"
    PORT = "port"
    PRIVATE_ADDRESS = "private-address"
    NO_SUCH_HOST = "no-such-host"
    UNREACHABLE = "unreachable"
    MALFORMED = "malformed"
    TOO_MANY = "too-many"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class AllowedHost:
    """One host that may be reached, at `port` or, for None, at the usual two: 443, and 80 for plain http.

    `preset` is the list it came from; `line` where the file has it.
    """

    host: str
    subdomains: bool = False
    port: int | None = None
    preset: str | None = None
    line: int | None = field(default=None, compare=False)

    def covers(self, host: str) -> bool:
        return host == self.host or (self.subdomains and host.endswith(f".{self.host}"))

    def takes(self, port: int) -> bool:
        return port in USUAL_PORTS if self.port is None else port == self.port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        dotted = f".{host}" if self.subdomains else host
        return dotted if self.port is None else f"{dotted}:{self.port}"


@dataclass(frozen=True, slots=True)
class Ruling:
    """`entry` is the one that lets the target through, or the one that names its host without its port."""

    allowed: bool
    reason: Reason
    entry: AllowedHost | None = None


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The entries in their order. `everything`: egress is off, and any public host may be reached."""

    entries: tuple[AllowedHost, ...] = ()
    everything: bool = False
    notes: tuple[str, ...] = ()

    def judge(self, target: Target, more: Sequence[AllowedHost] = ()) -> Ruling:
        """Whether the target may be reached as far as its name says; `more` are entries of the run's own."""
        literal = read_address(target.host)
        if literal is not None and not is_public(literal):
            return Ruling(False, Reason.PRIVATE_ADDRESS)
        named = [entry for entry in (*self.entries, *more) if entry.covers(target.host)]
        for entry in named:
            if entry.takes(target.port):
                return Ruling(True, Reason.LISTED, entry)
        if self.everything:
            return Ruling(True, Reason.OPEN)
        return Ruling(False, Reason.PORT, named[0]) if named else Ruling(False, Reason.NOT_LISTED)


def read_entry(text: str) -> tuple[AllowedHost, ...]:
    """The entry, or all those of a preset. Raises NotAnEntry."""
    if len(text) > ENTRY_MAX:
        raise NotAnEntry(f"is longer than {ENTRY_MAX} characters")
    if text.startswith("@"):
        return _preset(text)
    if text == "":
        raise NotAnEntry(f"is empty; wanted is {WANTED}")
    _without_more_than_a_host(text)
    host, port = split_port(text)
    subdomains = host.startswith(".")
    name = normal_host(host[1:] if subdomains else host)
    if name is None:
        raise NotAnEntry(f"is no host; wanted is {WANTED}")
    address = read_address(name)
    if address is not None and subdomains:
        raise NotAnEntry("is an address, which has no subdomains; leave out the dot")
    if address is not None and not is_public(address):
        raise NotAnEntry("is no public address; nothing lets a run reach this host or its network")
    return (AllowedHost(name, subdomains=subdomains, port=None if port is None else _port_of(port)),)


def read_entries(texts: Iterable[str]) -> tuple[AllowedHost, ...]:
    """Those of the texts that are entries, for texts that were judged when they were written."""
    found: list[AllowedHost] = []
    for text in texts:
        try:
            found += read_entry(text)
        except NotAnEntry:
            continue
    return tuple(found)


def _preset(text: str) -> tuple[AllowedHost, ...]:
    name = text[1:]
    if name not in PRESETS:
        raise NotAnEntry(f"is no preset; known are {', '.join(f'@{each}' for each in PRESETS)}")
    return tuple(
        AllowedHost(host.removeprefix("."), subdomains=host.startswith("."), preset=name)
        for host in PRESETS[name]
    )


def _without_more_than_a_host(text: str) -> None:
    for mark, problem in (
        ("://", "has a scheme; write the host alone"),
        ("/", "has a path; hosts alone are let through, whatever is asked of them"),
        ("@", "has a user's name; write the host alone"),
        ("*", "has a star; write .example.com for example.com and what is below it"),
    ):
        if mark in text:
            raise NotAnEntry(problem)
    if re.search(r"\s", text):
        raise NotAnEntry("has space in it; write one entry a line")


def _port_of(text: str) -> int:
    if not PORT.fullmatch(text) or int(text) > 65535:
        raise NotAnEntry("has no port behind its colon: 1 to 65535")
    return int(text)


@dataclass(frozen=True, slots=True)
class EgressUse:
    """What one run did at one host since it was last written: counts to add up.

    `reason` is a word of `domain.egress.Reason`. `first_ago` and `last_ago` are seconds before now.
    """

    run_id: int
    host: str
    port: int
    allowed: bool
    reason: str
    connections: int
    bytes_up: int
    bytes_down: int
    first_ago: float
    last_ago: float


def parse_allowlist(content: bytes, file: str) -> Allowlist:
    """Raises ConfigurationRefused with every problem, each with file and line."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigurationRefused([f"{file}:{line}: is not UTF-8"]) from error
    lines = text.split("\n")
    if len(lines) > LINES_MAX:
        raise ConfigurationRefused([f"{file}: has more than {LINES_MAX:,} lines"])
    entries: list[AllowedHost] = []
    problems: list[str] = []
    for number, row in enumerate(lines, start=1):
        written = row.partition("#")[0].strip()
        if not written:
            continue
        try:
            entries += (replace(entry, line=number) for entry in read_entry(written))
        except NotAnEntry as error:
            problems.append(f"{file}:{number}: {shown(written)} {error}")
    if problems:
        raise ConfigurationRefused(problems)
    return Allowlist(tuple(entries))
