"""Check the addresses of servers, and print them without what is secret in them."""

import re
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from pidispatch.config.grammar import Unwanted

DATABASE_SCHEMES = {"postgres", "postgresql", "postgresql+psycopg"}
REDIS_SCHEMES = {"redis", "rediss", "unix"}

WANT_DATABASE = "postgresql://user:password@host:port/database, with special characters percent-encoded, or no such variable"
WANT_REDIS = (
    "redis://, rediss:// or unix:// with a host or socket path and a numbered database, or no such variable"
)
WANT_NO_SENTINEL = (
    "the address of the primary itself, such as redis://host:6379/0: Redis Sentinel is not asked, so let a name or an"
    " address that moves with the primary stand there"
)
WANT_REDIS_QUERY = (
    "in the query of the address only db=NUMBER, username, password, client_name, protocol=2 or 3, and with rediss://"
    " ssl_ca_certs, ssl_ca_path, ssl_certfile, ssl_keyfile (each an absolute path), ssl_password,"
    " ssl_cert_reqs=required, optional or none, ssl_check_hostname"
)
WANT_BASE = "an http:// or https:// address without user, password, query or fragment"
WANT_PASSWORD = "at least 16 characters of hex or base64url"  # noqa: S105 - a sentence, no password

SENTINEL_SCHEMES = {
    "sentinel",
    "redis-sentinel",
    "rediss-sentinel",
    "redis+sentinel",
    "rediss+sentinel",
    "valkey-sentinel",
}
# What the client takes from an address; its time-outs, retries and decoding are ours, or bells would be lost or doubled.
REDIS_QUERY = {
    "client_name": r".+",
    "db": r"0|[1-9][0-9]{0,5}",
    "password": r".+",
    "protocol": r"[23]",
    "ssl_ca_certs": r"/.+",
    "ssl_ca_path": r"/.+",
    "ssl_cert_reqs": r"none|optional|required",
    "ssl_certfile": r"/.+",
    "ssl_check_hostname": r"(?i:true|false|yes|no|1|0)",
    "ssl_keyfile": r"/.+",
    "ssl_password": r".+",
    "username": r".+",
}

HOST = re.compile(r"(\[[^\[\]]+\]|[^\[\]:]*)(:[0-9]+)?")

# What is shown of a query; libpq and redis-py both take passwords there.
HARMLESS = {"host", "port", "dbname", "db", "sslmode", "connect_timeout", "application_name"}
HARMLESS |= {"target_session_attrs", "ssl_cert_reqs", "protocol", "ssl_ca_certs", "ssl_check_hostname"}


def database_url(text: str) -> str:
    """A Postgres address in the spelling that names our driver. It must name its database."""
    parts = _split(text, DATABASE_SCHEMES, WANT_DATABASE)
    if not re.fullmatch(r"/[^/]+", parts.path):
        raise Unwanted(WANT_DATABASE)
    return f"postgresql+psycopg://{text.partition('://')[2]}"


def redis_url(text: str) -> str:
    """A Redis address. TLS is `rediss://`; `ssl_ca_certs=/path` in the query names a CA of one's own."""
    if text.partition("://")[0].lower() in SENTINEL_SCHEMES:
        raise Unwanted(WANT_NO_SENTINEL)
    parts = _split(text, REDIS_SCHEMES, WANT_REDIS)
    # The client takes a database it cannot read for number 0, so it is read here.
    pattern = r"/.+" if parts.scheme == "unix" else r"(/(0|[1-9][0-9]{0,5})?)?"
    if not re.fullmatch(pattern, parts.path):
        raise Unwanted(WANT_REDIS)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        encrypted = parts.scheme == "rediss" or not name.startswith("ssl_")
        if not encrypted or name not in REDIS_QUERY or not re.fullmatch(REDIS_QUERY[name], value):
            raise Unwanted(WANT_REDIS_QUERY)
    return text


def base_url(text: str) -> str:
    """The address a provider's paths are appended to, without its last slash."""
    parts = _split(text, {"http", "https"}, WANT_BASE)
    if not parts.hostname or "@" in text or "?" in text:
        raise Unwanted(WANT_BASE)
    return text.rstrip("/")


def valkey_password(text: str) -> str:
    if re.fullmatch(r"[A-Za-z0-9_-]{16,}={0,2}", text):
        return text
    raise Unwanted(WANT_PASSWORD)


def with_password(url: str, password: str | None) -> str:
    """The Redis address with a password in it; one that is there already stays."""
    parts = urlsplit(url)
    if password is None or parts.password or "password" in dict(parse_qsl(parts.query)):
        return url
    user, at, host = parts.netloc.rpartition("@")
    netloc = f"{user.rstrip(':') if at else ''}:{quote(password, safe='')}@{host}"
    return f"{parts.scheme}://{netloc}{parts.path}{'?' + parts.query if parts.query else ''}"


def shown_url(url: str) -> str:
    """An accepted address for people, built only of parts that hold no secret.

    A lone user name of Redis is left out as well: people put the password there.
    """
    parts = urlsplit(url)
    user, _, host = parts.netloc.rpartition("@")
    name = user.partition(":")[0] if parts.scheme.startswith("postgresql") else ""
    query = "&".join(_shown_pair(*pair) for pair in parse_qsl(parts.query, keep_blank_values=True))
    return f"{parts.scheme}://{name + '@' if name else ''}{host}{parts.path}{'?' + query if query else ''}"


def _shown_pair(key: str, value: str) -> str:
    if key in HARMLESS:
        return f"{key}={quote(value, safe='/')}"
    # A stray value may stand where a key is meant.
    return f"{key}=…" if re.fullmatch(r"[a-z_]{1,32}", key) and value else "…"


def _split(text: str, schemes: set[str], want: str) -> SplitResult:
    """Refuse what parsers read in different ways: an unencoded @, # or space moves a password into another part."""
    if not re.fullmatch(r"[\x21-\x7e]+", text) or "#" in text or "://" not in text:
        raise Unwanted(want)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise Unwanted(want) from None
    if text.count("@") != parts.netloc.count("@") or parts.netloc.count("@") > 1:
        raise Unwanted(want)
    if parts.scheme not in schemes or port == 0 or not HOST.fullmatch(parts.netloc.rpartition("@")[2]):
        raise Unwanted(want)
    return parts
