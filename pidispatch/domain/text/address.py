"""Read an address that a server shall listen on: an IP address and a port, or a unix socket."""

import re
from dataclasses import dataclass

WANTED = "127.0.0.1:9109, [::1]:9109 or unix:/path of at most 107 bytes"
MOST_PATH = 107  # bytes that the kernel takes for a socket's path


@dataclass(frozen=True, slots=True)
class TcpAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


ListenAddress = TcpAddress | UnixAddress


def listen_address(text: str) -> ListenAddress | None:
    """None when the text is no such address. Names are none: what they stand for can change."""
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        fits = path.isprintable() and len(path.encode(errors="replace")) <= MOST_PATH
        return UnixAddress(path) if path.startswith("/") and not path.endswith("/") and fits else None
    found = re.fullmatch(
        r"(?:\[([0-9a-fA-F:]{2,39})\]|([0-9]{1,3}(?:\.[0-9]{1,3}){3})):([1-9][0-9]{0,4})", text
    )
    if found is None or int(found[3]) > 65_535:
        return None
    if found[2] is not None and any(int(part) > 255 for part in found[2].split(".")):
        return None
    return TcpAddress(found[1] or found[2], int(found[3]))
