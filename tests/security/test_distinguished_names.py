"""Against what the JVM writes: tests/conformance/test_security_java.py."""

from __future__ import annotations

import contextlib

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.der import DerError
from barnabas.security.distinguished_names import canonical_name, rfc2253_name
from tests.security.test_der import encoded


def name(*parts: tuple[ObjectIdentifier, str]) -> bytes:
    return x509.Name([x509.NameAttribute(kind, text) for kind, text in parts]).public_bytes()


def test_the_example_of_java() -> None:
    kinds = NameOID
    der = name(
        (kinds.DOMAIN_COMPONENT, "d"),
        (kinds.USER_ID, "u1"),
        (kinds.COUNTRY_NAME, "DE"),
        (kinds.ORGANIZATION_NAME, "o"),
        (kinds.EMAIL_ADDRESS, "x@y"),
        (kinds.ORGANIZATIONAL_UNIT_NAME, "x y"),
        (kinds.COMMON_NAME, "a,b"),
    )
    assert rfc2253_name(der) == r"CN=a\,b,OU=x y,1.2.840.113549.1.9.1=#1603784079,O=o,C=DE,UID=u1,DC=d"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", "plain"),
        (',=+<>#;"\\', r"\,\=\+\<\>\#\;\"\\"),
        ("  x  ", r"\ \ x\ \ "),
        ("  ", r"\ \ "),
        ("a b", "a b"),
        ("\rx", "\\\rx"),
        ("\nx\t", "\nx\t"),
        ("a\0b", r"a\00b"),
        ("ä€😀", "ä€😀"),
    ],
)
def test_values_are_escaped(text: str, written: str) -> None:
    assert rfc2253_name(name((NameOID.COMMON_NAME, text))) == f"CN={written}"


def test_several_values_in_one_part_and_none_at_all() -> None:
    parts = [
        x509.NameAttribute(NameOID.COMMON_NAME, "b"),
        x509.NameAttribute(NameOID.USER_ID, "a"),
    ]
    der = x509.Name([x509.RelativeDistinguishedName(parts)]).public_bytes()
    assert rfc2253_name(der) in {"CN=b+UID=a", "UID=a+CN=b"}
    assert rfc2253_name(x509.Name([]).public_bytes()) == ""


def test_blanks_and_cases_do_not_count_in_a_canonical_name() -> None:
    spellings = [name((NameOID.COMMON_NAME, text)) for text in (" A  b", "a B ", "ab")]
    assert list(map(canonical_name, spellings)) == ["CN=a b", "CN=a b", "CN=ab"]


def test_a_value_that_is_no_string_is_written_in_hex() -> None:
    by_hand = encoded(0x30, encoded(0x31, encoded(0x30, b"\x06\x03\x55\x04\x03" + b"\x03\x02\x07\x80")))
    assert rfc2253_name(by_hand) == "CN=#03020780"


@pytest.mark.parametrize(
    "attribute", [b"\x06\x03\x55\x04\x03", b"\x06\x03\x55\x04\x03\x0c\x00\x0c\x00", b"\x0c\x00\x0c\x00"]
)
def test_a_damaged_name_is_rejected(attribute: bytes) -> None:
    with pytest.raises(DerError):
        rfc2253_name(encoded(0x30, encoded(0x31, encoded(0x30, attribute))))


@given(st.binary(max_size=80))
def test_any_bytes_are_a_name_or_raise_der_error(data: bytes) -> None:
    with contextlib.suppress(DerError):
        assert isinstance(rfc2253_name(data), str)
