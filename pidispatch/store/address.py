"""Take a database's address apart for other programs: what may be seen, and the password."""

from dataclasses import dataclass

from sqlalchemy import make_url

# libpq's words whose values are no secrets; what is not listed is left out.
HARMLESS = {
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "fallback_application_name",
    "gssencmode",
    "gsslib",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "options",
    "passfile",
    "port",
    "require_auth",
    "requirepeer",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcertmode",
    "sslcompression",
    "sslcrl",
    "sslcrldir",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "sslsni",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
}


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """`url` is libpq's and without any secret; `password` is apart, so the whole has no repr."""

    url: str
    password: str | None


def take_apart(address: str) -> Address:
    """`address` is what `Database` takes."""
    url = make_url(address)
    asked = url.query.get("password")
    password = url.password or (asked if isinstance(asked, str) else None)
    secret = [key for key in url.query if key not in HARMLESS]
    seen = url.difference_update_query(secret)._replace(drivername="postgresql", password=None)
    return Address(seen.render_as_string(hide_password=False), None if password is None else str(password))
