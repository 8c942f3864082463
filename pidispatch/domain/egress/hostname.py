"""Bring the name or address of a host, with its port, to one spelling."""

import re
from dataclasses import dataclass
from ipaddress import IPv6Address

from pidispatch.domain.egress.publicaddress import plain_address, read_address

HOST_MAX = 253
PORT = re.compile(r"[1-9][0-9]{0,4}")
_BRACKETED = re.compile(r"\[([^\[\]]*:[^\[\]]*)\](?::(.*))?")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# What a resolver reads as an IPv4 address in one of its odd spellings: the last label begins like a number.
# https://url.spec.whatwg.org/#ends-in-a-number-checker
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
# The two standards of international names make different hosts of these.
_AMBIGUOUS = re.compile("[\u00df\u03c2\u200c\u200d]")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a run wants to go: `host` in lower case without dot at its end, or an address in its usual spelling."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_target(text: str, port: int | None = None) -> Target | None:
    """`host:port` as a client asks for it, or `host` where there is a usual `port`; None when it is neither."""
    host, written = split_port(text)
    if written is not None:
        port = int(written) if PORT.fullmatch(written) else None
    bracketed = text.startswith("[") == (":" in host)
    name = normal_host(host) if text.isascii() and bracketed else None
    return None if name is None or port is None or port > 65535 else Target(name, port)


def normal_host(text: str) -> str | None:
    """The one spelling of a host's name or address; None for what is neither.

    `0x7f.1`, `2130706433` and their kind are neither: no resolver may get to see them.
    """
    if ":" in text:
        address = read_address(text)
        return str(plain_address(address)) if isinstance(address, IPv6Address) else None
    name = _ascii(text)
    if name is None or len(name) > HOST_MAX or not _HOST.fullmatch(name):
        return None
    if _NUMBER.fullmatch(name.rsplit(".", 1)[-1]):
        address = read_address(name)
        return None if address is None else str(address)
    return name


def _ascii(text: str) -> str | None:
    text = text.removesuffix(".")
    if text.isascii():
        return text.lower()
    if len(text) > HOST_MAX or _AMBIGUOUS.search(text):
        return None
    try:
        return text.encode("idna").decode("ascii").lower().removesuffix(".")
    except UnicodeError:
        return None


def split_port(text: str) -> tuple[str, str | None]:
    """Host and port as they stand; an address of IPv6 has its port only behind brackets, which are taken off."""
    if bracketed := _BRACKETED.fullmatch(text):
        return bracketed[1], bracketed[2]
    if text.count(":") == 1:
        host, _, port = text.partition(":")
        return host, port
    return text, None
