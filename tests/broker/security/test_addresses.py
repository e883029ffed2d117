"""Addresses as Java writes them; tests/conformance/test_authorizer.py compares with Java itself."""

from __future__ import annotations

import pytest

from barnabas.broker.security.addresses import java_host_address


@pytest.mark.parametrize(
    ("host", "written"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:DB8::00ab", "2001:db8:0:0:0:0:0:ab"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("a host: none", "a host: none"),
    ],
)
def test_addresses(host: str, written: str) -> None:
    assert java_host_address(host) == written
