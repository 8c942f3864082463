"""An address to listen on is read whole, or not at all."""

import pytest

from pidispatch.domain.text.address import TcpAddress, UnixAddress, listen_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9109", TcpAddress("127.0.0.1", 9109)),
        ("0.0.0.0:65535", TcpAddress("0.0.0.0", 65535)),
        ("[::1]:9109", TcpAddress("::1", 9109)),
        ("unix:/run/pidispatch/health.sock", UnixAddress("/run/pidispatch/health.sock")),
    ],
)
def test_what_can_be_listened_on_is_read(text, address):
    assert listen_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "9109", ":9109", "localhost:9109", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "127.0.0.1:09109",
        "256.0.0.1:9109", "127.0.0.1:9109 ", "http://127.0.0.1:9109", "::1:9109", "unix:", "unix:run/s", "unix:/run/",
        "unix:/" + "x" * 107, "unix:/a\nb",
    ],
)  # fmt: skip
def test_anything_else_is_not(text):
    assert listen_address(text) is None
