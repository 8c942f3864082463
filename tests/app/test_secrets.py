"""Which values of a process's own settings are secrets."""

import pytest

from pidispatch.app.secrets import known_secrets, passwords_of
from pidispatch.config import load


@pytest.mark.parametrize(
    ("address", "passwords"),
    [
        ("postgresql+psycopg://u:correct-horse@db/x", {"correct-horse"}),
        ("postgresql+psycopg://u:a%2Fb%40c-long@db/x", {"a%2Fb%40c-long", "a/b@c-long"}),
        ("postgresql+psycopg://db/x?password=in-the-query&sslmode=require", {"in-the-query"}),
        ("redis://:only-a-password@127.0.0.1:6379/0", {"only-a-password"}),
        ("postgresql+psycopg://postgres:postgres@db/x", set()),
        ("postgresql+psycopg://u:pidispatch@db/pidispatch", set()),
        ("unix:///run/x.sock?db=0", set()),
        ("http://[broken", set()),
        ("", set()),
    ],
)
def test_the_passwords_of_an_address(address, passwords):
    assert set(passwords_of(address)) == passwords


def test_what_a_process_knows_is_by_name_and_no_providers_key(monkeypatch):
    environ = {
        "DATABASE_URL": "postgresql://u:db-password@db/x",
        "REDIS_URL": "redis://:redis-password@r/0",
        "GH_TOKEN": "ghp_0123456789",
        "WEBHOOK_SECRET": "hook-secret",
        "GITLAB_HOST": "gitlab.example.org",
        "ANTHROPIC_API_KEY": "sk-of-the-gateway",
        "NPM_TOKEN": "npm_forwarded",
        "LANG": "en_GB.UTF-8",
        "PI_FORWARD_ENV": "NPM_TOKEN,LANG,ARTIFACTS",
        "ARTIFACTS": "https://u:for-artifacts@example.org/",
    }
    for name, value in environ.items():
        monkeypatch.setenv(name, value)

    known = known_secrets(load(environ, None)) - {""}

    assert known == {
        "db-password", "redis-password", "ghp_0123456789", "hook-secret", "npm_forwarded", "for-artifacts",
    }  # fmt: skip
