"""Every way out of a real box: there is none but the door, and the door leads to listed public hosts alone."""

from ipaddress import ip_network

import pytest

from tests.support.outside import PUBLIC

pytestmark = pytest.mark.docker

NOBODY = "203.0.113.9"  # an address of documentation: a box with a route would still not reach anybody
NO_ROUTE = ("OSError: [Errno 101] Network is unreachable",)
NOT_THERE = ("FileNotFoundError", "ConnectionRefusedError", "PermissionError", "NotADirectoryError")
PRIVATE, NOT_LISTED = ("403 egress_private-address",), ("403 egress_not-listed",)
MALFORMED = ("400 egress_malformed", "400 invalid_request_error")

# name: what is tried, and how each good answer begins
CASES = {
    "no interface but lo": (("interfaces",), [["lo"]]),
    "no route": (("routes",), [[]]),
    "no name is resolved": (("resolve", "allowed.example"), ("gaierror",)),
    "tcp to a public address": (("tcp", NOBODY, 443), NO_ROUTE),
    "tcp to a public address of IPv6": (("tcp", "2001:db8::9", 443), ("OSError: [Errno 101]", "OSError: [Errno 99]", "OSError: [Errno 97]")),
    "tcp to the metadata service": (("tcp", "169.254.169.254", 80), NO_ROUTE),
    "udp": (("udp", NOBODY, 53), NO_ROUTE),
    "icmp": (("icmp", NOBODY), (*NO_ROUTE, "PermissionError")),
    "a raw socket": (("raw", NOBODY), ("PermissionError",)),
    "a packet socket": (("packet",), ("PermissionError",)),
    "metadata by proxy": (("connect", "169.254.169.254:80"), PRIVATE),
    "metadata by plain http": (("plain", "http://169.254.169.254/latest/meta-data/"), PRIVATE),
    "a name of the metadata service": (("connect", "to-metadata.example:80"), PRIVATE),
    "loopback by proxy": (("connect", "127.0.0.1:80"), PRIVATE),
    "loopback of IPv6 by proxy": (("connect", "[::1]:80"), PRIVATE),
    "the name of the loopback by proxy": (("connect", "localhost:80"), PRIVATE),
    "this host's any address by proxy": (("connect", "0.0.0.0:80"), PRIVATE),
    "a private address by proxy, 10/8": (("connect", "10.0.0.1:443"), PRIVATE),
    "a private address by proxy, 172.16/12": (("connect", "172.16.0.1:443"), PRIVATE),
    "a private address by proxy, 192.168/16": (("connect", "192.168.0.1:443"), PRIVATE),
    "a unique local address by proxy": (("connect", "[fd00:ec2::254]:80"), PRIVATE),
    "a public name of a private address": (("connect", "to-private.example:443"), PRIVATE),
    "a public name of a mapped private address": (("connect", "to-mapped.example:443"), PRIVATE),
    "a mapped address by proxy": (("connect", "[::ffff:127.0.0.1]:80"), PRIVATE),
    "a decimal address": (("connect", "2130706433:80"), MALFORMED),
    "a hexadecimal address": (("connect", "0x7f.0.0.1:80"), MALFORMED),
    "an octal address": (("plain", "http://0177.0.0.1/"), MALFORMED),
    "a host that is not listed": (("connect", "elsewhere.example:443"), NOT_LISTED),
    "a public address that is not listed": (("connect", f"{PUBLIC}:443"), NOT_LISTED),
    "a port that is not listed": (("connect", "allowed.example:22"), ("403 egress_port",)),
    "plain http to a host that is not listed": (("plain", "http://elsewhere.example/"), NOT_LISTED),
    "a listed host's name as a user's": (("plain", "http://allowed.example@10.0.0.1/"), MALFORMED),
    "the engine's socket": (("unix", "/var/run/docker.sock"), NOT_THERE),
    "the engine's socket at its other place": (("unix", "/run/docker.sock"), NOT_THERE),
    "the door of another run, beside ours": (("unix", "/gate/../8/s"), NOT_THERE),
    "what lies beside our door": (("listing", "/gate"), ("PermissionError",)),
    "abstract sockets of the host": (("abstract",), [[]]),
    "the path of ours through the first process": (("unix", "/proc/1/root/gate/../8/s"), NOT_THERE),
    "the control socket beside ours": (("unix", "/gate/../../gateway.sock"), NOT_THERE),
}  # fmt: skip


@pytest.fixture(scope="module")
def tried(ask, world, engine):
    bridges = [
        _own_address(pool) for network in engine.api.networks() for pool in (network["IPAM"]["Config"] or ())
    ]
    asked = {name: way for name, (way, _) in CASES.items()}
    asked |= {f"bridge {address}": ("tcp", address, 22) for address in bridges}
    asked |= {
        "control": ("unix", str(world.control)),
        "control through the first process": ("unix", f"/proc/1/root{world.control}"),
        "the other run's door": ("unix", f"{world.door(8)}/s"),
        "the other run's door through the first process": ("unix", f"/proc/1/root{world.door(8)}/s"),
        "an abstract name": ("unix", f"\0{world.control}"),
        "rebinding, first": ("connect", "rebinding.example:443"),
        "rebinding, then": ("connect", "rebinding.example:443"),
        "allowed": ("connect", "allowed.example:443"),
    }
    return ask(asked)


def _own_address(pool):
    """The engine's own end of a bridge. It names none before its first restart, and has taken the first address then."""
    return pool.get("Gateway") or str(next(ip_network(pool["Subnet"]).hosts()))


@pytest.mark.parametrize("name", CASES)
def test_there_is_no_way_out(tried, name):
    _, good = CASES[name]
    found = tried[name]

    assert found in good if isinstance(found, list) else found.startswith(tuple(good)), found


def test_the_engines_bridges_are_not_reached(tried):
    bridges = {name: found for name, found in tried.items() if name.startswith("bridge ")}

    assert bridges
    assert all(found.startswith(NO_ROUTE) for found in bridges.values()), bridges


@pytest.mark.parametrize(
    "name",
    [
        "control",
        "control through the first process",
        "the other run's door",
        "the other run's door through the first process",
        "an abstract name",
    ],
)
def test_the_sockets_of_other_runs_and_of_the_worker_are_not_there(tried, name):
    assert tried[name].startswith(NOT_THERE), tried[name]


def test_a_name_that_changes_its_address_gets_what_was_checked_and_is_then_refused(tried):
    assert tried["rebinding, first"] == "200 ping"
    assert tried["rebinding, then"] == "403 egress_private-address"


def test_the_allowed_way_is_open(tried):
    assert tried["allowed"] == "200 ping"


def test_only_checked_public_addresses_were_dialled_and_every_try_was_kept(tried, world):
    assert {address for address, _ in world.internet.dialled} == {PUBLIC}
    world.gateway._egress.flush(7)
    kept = {(use.host, use.allowed, use.reason) for use in world.kept.uses}
    assert kept >= {
        ("allowed.example", True, "listed"),
        ("elsewhere.example", False, "not-listed"),
        ("169.254.169.254", False, "private-address"),
        ("to-private.example", False, "private-address"),
    }
