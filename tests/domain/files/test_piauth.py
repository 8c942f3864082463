"""pi's `auth.json`: which keys it lends, and that nothing of it is printed."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.providers.piauth import Stored, parse_pi_auth
from pidispatch.errors import ConfigurationRefused

ENVIRON = {"TOKEN": "from-env", "PART": "b"}


def parse(value, environ=ENVIRON):
    return parse_pi_auth(json.dumps(value).encode(), "auth.json", environ)


def key(text, **more):
    return parse({"groq": {"type": "api_key", "key": text, **more}})["groq"]


def test_a_stored_key_is_taken():
    assert key("gsk-1") == Stored("gsk-1")


def test_a_login_is_refused_as_a_credential():
    login = {"type": "oauth", "access": "secret-a", "refresh": "secret-r", "expires": 1}

    found = parse({"anthropic": login})

    assert found == {"anthropic": Stored(lacks="oauth-login")}
    assert "secret" not in repr(found)


def test_a_reference_to_a_variable_is_resolved_and_a_command_is_not_run():
    assert key("$TOKEN") == Stored("from-env")
    assert key("a${PART}c") == Stored("abc")
    assert key("$OWN", env={"OWN": "own"}) == Stored("own")
    assert key("$TOKEN", env={"TOKEN": "own"}) == Stored("own")
    assert key("$$x$!y") == Stored("$x!y")
    assert key("$MISSING") == Stored(lacks="no-key")
    assert key("!cat /etc/passwd") == Stored(lacks="key-command")


@pytest.mark.parametrize("entry", [None, 5, [], {}, {"type": "api_key"}, {"type": "api_key", "key": ""}, {"type": "x", "key": "k"}, {"key": "k"}])  # fmt: skip
def test_what_holds_no_key_lacks_one(entry):
    assert parse({"groq": entry}) == {"groq": Stored(lacks="no-key")}


@pytest.mark.parametrize("content", [b"", b"[]", b'"sk-secret"', b'{"sk-secret"', b'{"a":1,"a":2,"sk-secret":0}', b"\xff", b"[" * 99])  # fmt: skip
def test_a_file_that_is_not_pis_is_refused_without_its_content(content):
    with pytest.raises(ConfigurationRefused) as refusal:
        parse_pi_auth(content, "/home/a/auth.json", {})

    assert "sk-secret" not in str(refusal.value)
    assert str(refusal.value).startswith("/home/a/auth.json: is not what pi writes there; ")


@pytest.mark.parametrize("text", ["sk secret", "sk-secret\n", "sk-secretü"])
def test_a_key_no_header_can_carry_is_refused_unseen(text):
    with pytest.raises(ConfigurationRefused) as refusal:
        key(text)

    assert "secret" not in str(refusal.value)


def test_a_key_shows_in_no_repr():
    assert "gsk-1" not in repr(key("gsk-1"))


@given(
    st.dictionaries(
        st.text(),
        st.dictionaries(
            st.sampled_from(["type", "key", "env"]),
            st.text() | st.just("api_key") | st.dictionaries(st.text(), st.text()),
        ),
    )
)
def test_no_file_makes_it_raise_anything_else(value):
    with contextlib.suppress(ConfigurationRefused):
        parse(value)
