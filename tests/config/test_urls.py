"""Addresses of servers: which are taken, which refused, and how they are printed."""

from urllib.parse import urlsplit

import pytest

from pidispatch.config import Place, describe, load
from pidispatch.errors import ConfigurationRefused

PERSON = Place(uid=1000, user_home="/home/ada", host_name="desk")


def settings(**environ):
    return load(environ, None, place=PERSON)


def shown(name, text):
    return next(row.value for row in describe(settings(**{name: text})) if row.name == name)


@pytest.mark.parametrize(
    ("text", "used", "printed"),
    [
        ("postgres://db/r", "postgresql+psycopg://db/r", "postgresql+psycopg://db/r"),
        ("postgresql://u:p@db:1/r", "postgresql+psycopg://u:p@db:1/r", "postgresql+psycopg://u@db:1/r"),
        ("postgresql+psycopg://u@db/r", "postgresql+psycopg://u@db/r", "postgresql+psycopg://u@db/r"),
        ("POSTGRES://[::1]:5432/r", "postgresql+psycopg://[::1]:5432/r", "postgresql+psycopg://[::1]:5432/r"),
        (
            "postgresql:///r?host=/run/pg&password=p&sslmode=require",
            "postgresql+psycopg:///r?host=/run/pg&password=p&sslmode=require",
            "postgresql+psycopg:///r?host=/run/pg&password=…&sslmode=require",
        ),
    ],
)
def test_a_database_address_names_our_driver_and_is_printed_without_its_password(text, used, printed):
    assert settings(DATABASE_URL=text).database_url.get_secret_value() == used
    assert shown("DATABASE_URL", text) == printed


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("redis://cache", "redis://cache"),
        ("redis://:6379/", "redis://:6379/"),
        ("rediss://ada:p@cache:6380/15", "rediss://cache:6380/15"),
        ("unix:///run/valkey.sock?db=2", "unix:///run/valkey.sock?db=2"),
        ("unix://u:p@/run/valkey.sock?password=p", "unix:///run/valkey.sock?password=…"),
    ],
)
@pytest.mark.parametrize("name", ["REDIS_URL", "VALKEY_URL"])
def test_a_redis_address_is_taken_as_it_is_and_printed_without_its_user(name, text, printed):
    assert settings(**{name: text}).broker_url.get_secret_value() == text
    assert shown(name, text) == printed


REFUSED = [
    ("DATABASE_URL", "mysql://u:p@db/r"),
    ("DATABASE_URL", "postgresql+asyncpg://db/r"),
    ("DATABASE_URL", "postgresql:db/r"),
    ("DATABASE_URL", "postgresql://db"),
    ("DATABASE_URL", "postgresql://db/"),
    ("DATABASE_URL", "postgresql://db/a/b"),
    ("DATABASE_URL", "postgresql://db:port/r"),
    ("DATABASE_URL", "postgresql://db:/r"),
    ("DATABASE_URL", "postgresql://db:0/r"),
    ("DATABASE_URL", "postgresql://db:65536/r"),
    ("DATABASE_URL", "postgresql://u:p@w@db/r"),
    ("DATABASE_URL", "postgresql://u:12?w@db/r"),
    ("DATABASE_URL", "postgresql://u:12/w@db/r"),
    ("DATABASE_URL", "postgresql://u:p#w@db/r"),
    ("DATABASE_URL", "postgresql://[::1/r"),
    ("DATABASE_URL", " postgresql://db/r"),
    ("DATABASE_URL", "postgresql://db/r\n"),
    ("DATABASE_URL", "postgresql://db/ré"),
    ("REDIS_URL", "http://cache"),
    ("REDIS_URL", "cache:6379"),
    ("REDIS_URL", "redis://cache/x"),
    ("REDIS_URL", "redis://cache/01"),
    ("REDIS_URL", "redis://cache/1/2"),
    ("REDIS_URL", "unix://"),
    ("REDIS_URL", "unix:///"),
    ("REDIS_URL", "unix:relative"),
    ("VALKEY_URL", "redis://cache:x"),
    ("VALKEY_PASSWORD", "short"),
    ("VALKEY_PASSWORD", "0123456789abcde!"),
    ("VALKEY_PASSWORD", "0123456789abcdef\n"),
]


@pytest.mark.parametrize(("name", "text"), REFUSED)
def test_an_address_that_could_be_read_in_two_ways_is_refused(name, text):
    with pytest.raises(ConfigurationRefused) as refusal:
        settings(**{name: text})

    (problem,) = refusal.value.problems
    assert problem.startswith(f"{name} is not accepted (its value is not shown); want ")


PASSWORD = "0123456789abcde_-="


@pytest.mark.parametrize(
    ("environ", "used"),
    [
        ({}, None),
        ({"VALKEY_PASSWORD": PASSWORD}, None),
        ({"REDIS_URL": "redis://a", "VALKEY_URL": "redis://b"}, "redis://a"),
        ({"VALKEY_URL": "redis://b", "VALKEY_PASSWORD": "0" * 16}, f"redis://:{'0' * 16}@b"),
        (
            {"REDIS_URL": "redis://u@b/2?protocol=3", "VALKEY_PASSWORD": "0" * 16},
            f"redis://u:{'0' * 16}@b/2?protocol=3",
        ),
        ({"REDIS_URL": "redis://:mine@b", "VALKEY_PASSWORD": "0" * 16}, "redis://:mine@b"),
        ({"REDIS_URL": "unix:///s?password=mine", "VALKEY_PASSWORD": "0" * 16}, "unix:///s?password=mine"),
        ({"REDIS_URL": "unix:///s", "VALKEY_PASSWORD": "0" * 16}, f"unix://:{'0' * 16}@/s"),
    ],
)
def test_redis_wins_over_valkey_and_a_password_in_the_address_over_the_other(environ, used):
    url = settings(**environ).broker_url

    assert (url.get_secret_value() if url else None) == used


def test_a_password_put_into_an_address_is_encoded():
    url = settings(VALKEY_URL="redis://b", VALKEY_PASSWORD=PASSWORD).broker_url

    assert urlsplit(url.get_secret_value()).password == PASSWORD.replace("=", "%3D")
