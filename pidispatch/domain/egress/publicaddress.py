"""Tell an address of the public internet from every other kind."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

# https://www.iana.org/assignments/iana-ipv4-special-registry
_NOT_PUBLIC_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host: Linux connects 0.0.0.0 to itself
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind a carrier's NAT, and one cloud's metadata
        "127.0.0.0/8",
        "168.63.129.16/32",  # public by number, yet one cloud's host and its metadata
        "169.254.0.0/16",  # link-local, and most clouds' metadata
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",  # with the broadcast address
    )
)
# https://www.iana.org/assignments/ipv6-unicast-address-assignments: what is not global unicast is somebody's own.
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # protocol assignments, with Teredo, whose tunnels end anywhere
        "2001:db8::/32",
        "2002::/16",  # 6to4: an IPv4 address of any kind behind a relay
        "3fff::/20",
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")


def read_address(text: str) -> Address | None:
    """An address in its one usual spelling; None for anything else, such as `0x7f.1` or `2130706433`."""
    try:
        return ip_address(text)
    except ValueError:
        return None


def plain_address(address: Address) -> Address:
    """The IPv4 address that a mapped IPv6 one stands for; any other as it is."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def is_public(address: Address) -> bool:
    """Whether anybody's packets to it go to the same machine, which is neither this host nor one beside it."""
    address = plain_address(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _GLOBAL_UNICAST and not any(address in network for network in _NOT_PUBLIC_6)
