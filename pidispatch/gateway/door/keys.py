"""Keep the gateway's secret in a 0600 file, and derive each attempt's report key from it."""

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from pidispatch.errors import ConfigurationRefused

SIZE = 32


def load_secret(path: Path) -> bytes:
    """Read the secret, or make it once. Raises ConfigurationRefused for a file that others could have read."""
    try:
        _make(path)
    except FileExistsError:
        pass
    except OSError as error:
        raise ConfigurationRefused([f"{path}: cannot be made: {error.strerror}"]) from error
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(SIZE + 1)
    except OSError as error:
        raise ConfigurationRefused([f"{path}: cannot be read: {error.strerror}"]) from error
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ConfigurationRefused([f"{path}: must be a file of user {os.geteuid()} with mode 0600"])
    if len(data) != SIZE:
        raise ConfigurationRefused(
            [f"{path}: holds {len(data)} bytes, not {SIZE}: remove it to have a new one"]
        )
    return data


def _make(path: Path) -> None:
    """Appear whole or not at all: a half-written secret would refuse every later start."""
    if path.exists():
        raise FileExistsError
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o600), "wb") as file:
            file.write(secrets.token_bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def attempt_key(secret: bytes, run_id: int, attempt: int) -> str:
    """The key that the answer to /go hands over once: 64 lower-case hex digits."""
    return hmac.new(secret, f"{run_id}:{attempt}".encode(), hashlib.sha256).hexdigest()


def is_signed(key: str, body: bytes, signature: str | None) -> bool:
    """Whether `signature` is the hex HMAC-SHA256 of the body under the key's text."""
    wanted = hmac.new(key.encode(), body, hashlib.sha256).hexdigest()
    given = (signature or "").strip().lower()
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "replace"))
