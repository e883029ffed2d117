"""The address of a client as ACLs name hosts: the text that Java's InetAddress.getHostAddress gives.

ACLs are compared with it as text, so that an IPv6 address in any other form would match no entry.
"""

from __future__ import annotations


def java_host_address(host: str) -> str:
    """An IPv4 address as it is, an IPv6 one in eight groups without leading zeros (0:0:0:0:0:0:0:1).

    One that stands for an IPv4 address (::ffff:1.2.3.4) becomes that address. A scope (%eth0) stays at the end. Any
    other text is returned as it is.
    """
    if ":" not in host:
        return host
    from ipaddress import AddressValueError, IPv6Address  # most hosts have IPv4 addresses

    plain, percent, scope = host.partition("%")
    try:
        address = IPv6Address(plain)
    except AddressValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = address.exploded.split(":")
    return ":".join(group.lstrip("0") or "0" for group in groups) + percent + scope
