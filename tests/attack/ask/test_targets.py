"""341 ways to write where a run wants to go: none reaches an address that is not public, by the proxy or by a request."""

import json
import random
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from pidispatch.domain.egress.allowlist import Allowlist, read_entries
from pidispatch.domain.egress.hostname import read_target
from pidispatch.domain.providers.calls import Ticket
from pidispatch.gateway.calls.reach import Reach, read_address
from pidispatch.gateway.egress.dial import Outside, Unreached
from pidispatch.gateway.egress.plainhttp import read_asked
from pidispatch.gateway.http.http1 import HttpRefused, parse_head
from pidispatch.gateway.wire.references import References

# Hosts in the spellings of the two families, and targets that are odd as a whole.
HOSTS = json.loads((Path(__file__).parent / "targets.json").read_text())
V4, V6, ODD = HOSTS["v4"], HOSTS["v6"], HOSTS["odd"]
TARGETS = [
    *(form for host in V4 for form in (f"{host}:80", f"http://{host}/", f"http://{host}:80/x")),
    *(form for host in V6 for form in (f"[{host}]:80", f"{host}:80", f"http://[{host}]/", f"http://[{host}]:80/", f"http://{host}/")),
    *ODD,
]  # fmt: skip
ALLOWED = read_entries(["allowed.example"])
TICKET = Ticket(7, "local:7", 1, "anthropic")


def test_there_are_as_many_as_were_tried():
    assert len(TARGETS) == 341


class Dialler:
    """What would be connected to, with a resolver that reads numbers as leniently as the C library."""

    def __init__(self):
        self.dialled = []
        self.outside = Outside(resolver=self.resolve, dialer=self.dial)

    def resolve(self, host, port):
        try:
            return [ip_address(socket.inet_ntoa(socket.inet_aton(host)))]
        except OSError:
            return [ip_address("93.184.216.34")]

    def dial(self, address, port, seconds):
        self.dialled.append(address)
        raise OSError

    def reach(self, raw):
        """As a tunnel or a plain request asks for it, with egress off."""
        self.dialled.clear()
        line = f"GET {raw} HTTP/1.1" if raw.startswith("http://") else f"CONNECT {raw} HTTP/1.1"
        try:
            head = parse_head(line.encode("utf-8", "surrogatepass") + b"\r\nhost: allowed.example")
        except HttpRefused:
            return []
        asked = None if head.method == "CONNECT" else read_asked(head)
        target = read_target(head.path) if head.method == "CONNECT" else asked and asked.target
        if target is not None and Allowlist(everything=True).judge(target).allowed:
            with pytest.raises(Unreached):
                self.outside.reach(target, given_up=lambda: False)
        return list(self.dialled)


def is_public(address):
    """As the standard library has it, which is another table than ours."""
    if address.version == 6 and address.ipv4_mapped:
        address = address.ipv4_mapped
    return address.is_global and not address.is_multicast


@pytest.mark.parametrize("raw", TARGETS)
def test_no_target_reaches_an_address_that_is_not_public(raw):
    assert all(map(is_public, Dialler().reach(raw)))


def addresses(raw):
    """The same place, as an image or a document has it."""
    yield raw
    if "//" not in raw:
        yield from (f"http://{raw}/a.png", f"https://{raw}/", f"HTTPS://{raw}")
    yield raw.replace("http://", "https://")


@pytest.mark.parametrize("everything", [False, True])
@pytest.mark.parametrize("raw", TARGETS)
def test_no_address_in_a_request_leads_elsewhere_than_to_a_listed_host(raw, everything):
    reach = Reach(lambda: Allowlist(ALLOWED, everything))
    for text in addresses(raw):
        found = References()
        found.address(text)

        if reach.judge(TICKET, found) is None:
            target = read_address(text)
            assert target is not None
            assert (target.host, target.port in {80, 443}) == ("allowed.example", True)
            assert text.lower().partition("://")[2].startswith("allowed.example")


def literals(count):
    dice = random.Random(5)
    tops = [0, 0xFFFF << 32, 0x64FF9B << 96, 0x2002 << 112, 0x20010000 << 96, 0xFE80 << 112, 0xFD << 120, 0x2001 << 112, 0x20010DB8 << 96]  # fmt: skip
    for number in range(count):
        if number % 2:
            yield f"{ip_address(dice.getrandbits(32))}"
            continue
        value = dice.getrandbits(128)
        if dice.random() < 0.7:
            value = dice.choice(tops) | dice.getrandbits(dice.choice([16, 32, 64, 96]))
        yield f"[{ip_address(value & (2**128 - 1))}]"


def test_no_random_address_reaches_one_that_is_not_public(is_nightly):
    dialler = Dialler()
    for literal in literals(200_000 if is_nightly else 2_000):
        assert all(map(is_public, dialler.reach(f"{literal}:443"))), literal
