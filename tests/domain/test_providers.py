"""Which addresses are ones, and which are this machine's."""

import pytest

from pidispatch.domain.providers.known import is_base_url, is_loopback


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "127.1.2.3", "[::1]", "[0:0:0:0:0:0:0:1]"]
)
def test_these_are_this_machine(host):
    assert is_loopback(f"http://{host}:8000/v1")
    assert is_base_url(f"http://{host}:8000/v1")


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.5",
        "localhost.example",
        "127.0.0.1.example",
        "127.1",
        "0.0.0.0",
        "[::2]",
        "[::]",
        "[fe80::1]",
        "x127.0.0.1",
    ],
)
def test_these_are_not_known_to_be(host):
    assert not is_loopback(f"http://{host}/v1")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "http://",
        "ftp://x",
        "//x",
        "http://a@x",
        "http://x?y",
        "http://x#y",
        "http://x y",
        "http://x:0",
        "http://x:65536",
        "http://x\n",
        "http://x/a b",
        "http://[::1",
        "HTTP://x",
    ],
)
def test_what_is_no_plain_address_is_none(url):
    assert not is_base_url(url)
