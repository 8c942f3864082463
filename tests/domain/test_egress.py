"""Which hosts an allowlist lets through, and which addresses nothing does."""

import contextlib
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pidispatch.domain.egress.allowlist import (
    PRESETS,
    AllowedHost,
    Allowlist,
    NotAnEntry,
    Reason,
    parse_allowlist,
    read_entries,
    read_entry,
)
from pidispatch.domain.egress.hostname import Target, normal_host, read_target
from pidispatch.domain.egress.publicaddress import is_public, plain_address, read_address
from pidispatch.errors import ConfigurationRefused

PRIVATE = [
    IPv4Network(text)
    for text in (
        "10.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "100.64.0.0/10",
    )
]
LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,10}[a-z0-9])?", fullmatch=True)
HOST = st.lists(LABEL, min_size=1, max_size=4).map(".".join)


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
        "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.88.99.1",
        "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1",
        "255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1",
        "64:ff9b::7f00:1", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::",
        "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "2606:4700::1%1", "fec0::1", "ff02::1",
    ],
)  # fmt: skip
def test_an_address_of_this_host_its_network_or_nobody_is_not_public(text):
    assert not is_public(ip_address(text))


@pytest.mark.parametrize(
    "text",
    ["1.1.1.1", "8.8.8.8", "172.32.0.1", "100.128.0.1", "2606:4700::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"],
)
def test_an_address_that_anybody_reaches_is_public(text):
    assert is_public(ip_address(text))


@given(st.sampled_from(PRIVATE), st.integers(0, 2**32 - 1))
def test_no_spelling_of_a_private_address_inside_another_is_public(network, number):
    address = IPv4Address(int(network.network_address) | (number & int(network.hostmask)))
    value = int(address)

    assert not is_public(address)
    for around in (0xFFFF << 32, 0, 0x64FF9B << 96, 0x2002 << 112):
        inside = value << 80 if around >> 112 == 0x2002 else value
        assert not is_public(IPv6Address(around | inside))


@given(st.ip_addresses())
def test_what_the_library_calls_private_is_never_public(address):
    if address.is_private or address.is_multicast or address.is_link_local or address.is_reserved:
        embeds = plain_address(address) != address or str(address).startswith("64:ff9b::")
        assert embeds or not is_public(address)


@given(
    st.ip_addresses(v=4),
    st.sampled_from(["{0}", "{0:#x}", "{1:#o}.{2}.{3}.{4}", "{1:#x}.{2}.{3}.{4}", "{1}.{5}"]),
)
def test_only_the_usual_spelling_of_an_ipv4_address_is_a_host(address, form):
    number = int(address)
    a, b, c, d = address.packed
    text = form.format(number, a, b, c, d, number & 0xFFFFFF).replace("0o", "0")

    assert normal_host(text) in (None, text)
    assert normal_host(text) is None or read_address(text) == address
    assert normal_host(str(address)) == str(address)


@pytest.mark.parametrize(
    "text",
    [
        "0x7f.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "0",
        "1.2.3.4.5",
        "1.2.3.0x4",
        "a.0x",
    ],
)
def test_an_odd_spelling_of_a_number_is_no_host_at_all(text):
    assert normal_host(text) is None
    assert read_target(f"{text}:80") is None
    with pytest.raises(NotAnEntry):
        read_entry(text)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("example.com", AllowedHost("example.com")),
        ("EXAMPLE.com.", AllowedHost("example.com")),
        (".example.com", AllowedHost("example.com", subdomains=True)),
        ("example.com:8443", AllowedHost("example.com", port=8443)),
        (".example.com:22", AllowedHost("example.com", subdomains=True, port=22)),
        ("bücher.example", AllowedHost("xn--bcher-kva.example")),
        ("8.8.8.8", AllowedHost("8.8.8.8")),
        ("8.8.8.8:53", AllowedHost("8.8.8.8", port=53)),
        ("2606:4700::1111", AllowedHost("2606:4700::1111")),
        ("[2606:4700:0::1111]:8443", AllowedHost("2606:4700::1111", port=8443)),
        ("_x.example.com", AllowedHost("_x.example.com")),
    ],
)
def test_an_entry_is_read_in_any_spelling_of_its_host(text, entry):
    assert read_entry(text) == (entry,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is empty"),
        ("*", "star"),
        ("*.example.com", "star"),
        ("https://example.com", "scheme"),
        ("example.com/path", "path"),
        ("user@example.com", "user"),
        ("@nothing", "no preset"),
        ("exa mple.com", "space"),
        ("example.com:", "port"),
        ("example.com:0", "port"),
        ("example.com:65536", "port"),
        ("example.com:https", "port"),
        ("-x.example", "no host"),
        ("a..b", "no host"),
        (".", "no host"),
        ("..example.com", "no host"),
        ("faß.example", "no host"),
        ("\ud800.example", "no host"),
        ("[example.com]:443", "no host"),
        ("10.0.0.1", "no public address"),
        ("[::1]:443", "no public address"),
        ("[::ffff:192.168.0.1]", "no public address"),
        ("169.254.169.254", "no public address"),
        (".8.8.8.8", "no subdomains"),
        ("a" * 301, "longer"),
        ("a" * 64 + ".example", "no host"),
    ],
)
def test_what_is_no_entry_is_refused_with_the_reason(text, problem):
    with pytest.raises(NotAnEntry, match=problem):
        read_entry(text)


@given(st.text(max_size=40))
def test_no_text_makes_the_reader_raise_anything_but_its_own_error(text):
    try:
        entries = read_entry(text)
    except NotAnEntry:
        return
    assert read_entries([text]) == entries
    for entry in entries:
        address = read_address(entry.host)
        assert address is None or is_public(address)
        assert read_entry(str(entry)) == (AllowedHost(entry.host, entry.subdomains, entry.port),)


@given(st.text(max_size=40))
def test_a_target_is_a_host_and_a_port_or_nothing(text):
    target = read_target(text)
    if target is not None:
        assert read_target(str(target)) == target
        assert normal_host(target.host) == target.host


@given(HOST, LABEL)
def test_a_leading_dot_is_the_host_and_what_is_below_it(host, below):
    dotted = Allowlist(read_entry(f".{host}"))
    alone = Allowlist(read_entry(host))

    assert dotted.judge(Target(host, 443)).allowed
    assert dotted.judge(Target(f"{below}.{host}", 443)).allowed
    assert not dotted.judge(Target(f"{below}{host}", 443)).allowed
    assert alone.judge(Target(host, 443)).allowed
    assert not alone.judge(Target(f"{below}.{host}", 443)).allowed


def test_without_a_port_an_entry_lets_https_and_plain_http_through():
    found = Allowlist(read_entry("example.com"))

    assert [found.judge(Target("example.com", port)).allowed for port in (443, 80, 22, 8443)] == [
        True,
        True,
        False,
        False,
    ]
    assert found.judge(Target("example.com", 22)).reason is Reason.PORT


def test_a_written_port_is_the_only_one():
    found = Allowlist(read_entry("example.com:8443"))

    assert found.judge(Target("example.com", 8443)).allowed
    assert not found.judge(Target("example.com", 443)).allowed


def test_off_means_every_name_and_no_address_that_is_not_public():
    found = Allowlist(everything=True)

    assert found.judge(Target("anything.example", 22)).reason is Reason.OPEN
    assert found.judge(Target("8.8.8.8", 53)).allowed
    assert found.judge(Target("10.0.0.1", 443)).reason is Reason.PRIVATE_ADDRESS


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_holds_hosts_that_a_file_could_name(name):
    entries = read_entry(f"@{name}")

    assert [str(entry) for entry in entries] == list(PRESETS[name])
    assert all(each.preset == name and each.port is None for each in entries)
    assert all(read_entry(host) for host in PRESETS[name])


def test_a_file_is_read_with_remarks_and_lines():
    found = parse_allowlist(b"\xef\xbb\xbf# hosts\r\n\r\nexample.com  # ours\n@npm\n  .x.example:22\n", "f")

    assert [(entry.line, str(entry), entry.preset) for entry in found.entries] == [
        (3, "example.com", None),
        (4, "registry.npmjs.org", "npm"),
        (5, ".x.example:22", None),
    ]


def test_a_file_is_refused_with_every_problem_and_its_line():
    with pytest.raises(ConfigurationRefused) as refused:
        parse_allowlist(b"ok.example\n*.example\nhttp://x\n", "f.conf")

    assert [problem.partition(" ")[0] for problem in refused.value.problems] == ["f.conf:2:", "f.conf:3:"]


@pytest.mark.parametrize("content", [b"a.example\n\xff\n", b"\n" * 10_001])
def test_a_file_that_is_no_text_or_too_long_is_refused(content):
    with pytest.raises(ConfigurationRefused, match="f"):
        parse_allowlist(content, "f")


@given(st.binary(max_size=80))
def test_no_bytes_make_the_file_reader_raise_anything_but_its_own_error(content):
    with contextlib.suppress(ConfigurationRefused):
        assert all(read_entry(str(entry)) for entry in parse_allowlist(content, "f").entries)
