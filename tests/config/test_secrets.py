"""No secret is in any error, repr or row, whatever it is made of and wherever it was put."""

import copy
import json
import traceback
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.config import Place, describe, load, provider_keys
from pidispatch.errors import ConfigurationRefused

PERSON = Place(uid=1000, user_home="/home/ada", host_name="desk")
MARK = "Xq7Zw"
AWKWARD = st.text(st.sampled_from("aZ0@/:?#%&=;[]+ $\\'\"\n\u00e9\u0663"), max_size=6)
SECRETS = st.builds(lambda before, after: before + MARK + after, AWKWARD, AWKWARD)
PLACES = [
    ("DATABASE_URL", "postgresql://ada:{}@db.example:5432/runs"),
    ("DATABASE_URL", "postgres://ada:{}@db.example/runs?sslmode=require"),
    ("DATABASE_URL", "postgresql://ada@db.example/runs?password={}"),
    ("DATABASE_URL", "postgresql:///runs?host=/run/pg&user=ada&sslpassword={}"),
    ("DATABASE_URL", "mysql://ada:{}@db.example/runs"),
    ("DATABASE_URL", "{}"),
    ("REDIS_URL", "redis://:{}@cache.example:6379/0"),
    ("REDIS_URL", "rediss://ada:{}@cache.example/1?ssl_cert_reqs=none"),
    ("REDIS_URL", "redis://{}@cache.example"),
    ("REDIS_URL", "unix://:{}@/run/valkey.sock?db=2"),
    ("REDIS_URL", "unix:///run/valkey.sock?password={}"),
    ("REDIS_URL", "{}"),
    ("VALKEY_URL", "redis://u:{}@cache.example:port/0"),
    ("VALKEY_PASSWORD", "{}"),
    ("VALKEY_PASSWORD", "{}0123456789abcdef"),
    ("PIDISPATCH_UPSTREAM_OPENAI", "https://ada:{}@proxy.example/v1"),
    ("PIDISPATCH_UPSTREAM_OPENAI", "https://proxy.example/v1?key={}"),
    ("PI_FORWARD_ENV", "MY_KEY={}"),
    ("ANTHROPIC_API_KEY", "{}"),
]


def everything_printed(environ, dotenv=None):
    try:
        settings = load(environ, dotenv, place=PERSON)
    except ConfigurationRefused as refusal:
        return (
            repr(refusal.__context__)
            + str(refusal)
            + repr(refusal)
            + "".join(traceback.format_exception(refusal))
        )
    rows = describe(settings)
    printed = [repr(settings), str(settings), repr(rows), json.dumps([asdict(row) for row in rows])]
    printed += [settings.model_dump_json(), repr(settings.model_dump()), repr(copy.deepcopy(settings))]
    return "".join(printed) + repr(settings.broker_url)


@pytest.mark.parametrize(("name", "template"), PLACES)
@given(secret=SECRETS)
def test_a_secret_is_never_printed_as_it_is_or_encoded(name, template, secret):
    from urllib.parse import quote

    assert MARK not in everything_printed({name: template.format(secret)})
    assert MARK not in everything_printed({name: template.format(quote(secret, safe=""))})


@pytest.mark.parametrize(("name", "template"), PLACES)
def test_an_accepted_plain_secret_is_not_printed_either(name, template):
    assert MARK not in everything_printed({name: template.format(f"{MARK}-0123456789")})


def test_a_secret_in_a_broken_line_of_a_file_is_not_printed(tmp_path):
    dotenv = tmp_path / ".env"
    for line in (f"DATABASE_URL='{MARK}", f"{MARK}\x00=1", f"PI_CONCURRENCY=1\n='{MARK}'", f'A="{MARK}\nB=1'):
        dotenv.write_text(line + "\n")
        assert MARK not in everything_printed({}, dotenv)


def test_only_the_keys_that_were_asked_for_and_are_set_are_read():
    environ = {"ANTHROPIC_API_KEY": "sk-1", "OPENAI_API_KEY": "", "OTHER_KEY": "sk-2"}

    keys = provider_keys(environ, ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "MISSING_KEY"])

    assert {name: key.get_secret_value() for name, key in keys.items()} == {"ANTHROPIC_API_KEY": "sk-1"}
    assert "sk-1" not in repr(keys)


@pytest.mark.parametrize("key", ["sk 1", "sk-1\n", "\tsk-1", "sk-é", "sk\r\nX-Evil: 1"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key):
    with pytest.raises(ConfigurationRefused) as refusal:
        provider_keys({"OPENAI_API_KEY": key}, ["OPENAI_API_KEY"])

    assert "sk" not in str(refusal.value)
    assert str(refusal.value).startswith("OPENAI_API_KEY holds ")


def test_settings_hold_no_provider_key():
    settings = load({"ANTHROPIC_API_KEY": MARK, "OPENAI_API_KEY": MARK}, None, place=PERSON)

    assert MARK not in str(settings.model_dump())
    assert not any("_KEY" in row.name for row in describe(settings))
