from __future__ import annotations

import time

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from barnabas.security.certificates import (
    alternative_names,
    check_replacement,
    expires_s,
    first_expiry_s,
    subject_name,
    subject_of,
)
from barnabas.security.der import DerError
from barnabas.security.errors import SettingError
from tests.security.test_der import encoded
from tests.support.certificates import Authority, Identity, rsa_key

CA = Authority()


@pytest.fixture(scope="module")
def broker() -> Identity:
    return CA.issue("broker", ["localhost", "127.0.0.1"])


def test_the_subject_is_found_in_the_certificate(broker: Identity) -> None:
    assert subject_of(broker.der) == broker.certificate.subject.public_bytes()
    assert [subject_name(each.der) for each in (broker, CA, CA.issue("r", key=rsa_key()))] == [
        "CN=broker",
        "CN=Test CA",
        "CN=r",
    ]


def test_a_certificate_without_a_version_is_one_of_version_1(broker: Identity) -> None:
    subject = broker.certificate.subject.public_bytes()
    fields = b"\x02\x01\x01" + b"\x30\x00" * 3 + subject
    assert subject_of(encoded(0x30, encoded(0x30, fields))) == subject


@pytest.mark.parametrize("data", [b"\x30\x00", b"\x30\x02\x30\x00", b"\x30\x05\x30\x03\x02\x01\x01", b"x"])
def test_a_certificate_that_is_cut_off_is_rejected(data: bytes) -> None:
    with pytest.raises(DerError):
        subject_of(data)


def test_the_first_of_a_chain_to_expire_counts() -> None:
    short = CA.issue("short", ends_in_days=1)
    assert expires_s(short.der) == pytest.approx(time.time() + 86_400, abs=3600)
    assert first_expiry_s([CA.der, short.der]) == expires_s(short.der)


def test_alternative_names_have_kinds(broker: Identity) -> None:
    assert alternative_names(broker.der) == {"DNSName:localhost", "IPAddress:127.0.0.1"}
    assert alternative_names(CA.issue("x").der) == frozenset()


def check(old: Identity, new: Identity, *, dn: bool = False, san: bool = False) -> None:
    check_replacement([old.der], [new.der], allow_dn_changes=dn, allow_san_changes=san)


def test_a_certificate_may_be_renewed(broker: Identity) -> None:
    check(broker, CA.issue("broker", ["127.0.0.1", "more", "localhost"]))
    check(broker, CA.issue(" Broker ", ["127.0.0.1", "localhost"]))


def test_another_name_needs_permission(broker: Identity) -> None:
    other = CA.issue("other", ["localhost", "127.0.0.1"])
    with pytest.raises(SettingError, match=r"ssl\.allow\.dn\.changes=true") as caught:
        check(broker, other)
    assert caught.value.phrase == (
        "Keystore DistinguishedName does not match:  existing={DN=CN=broker}, new={DN=CN=other}"
    )
    check(broker, other, dn=True)
    unit = x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, "u")
    cn = x509.NameAttribute(NameOID.COMMON_NAME, "broker")
    with pytest.raises(SettingError):
        check(broker, CA.issue(x509.Name([unit, cn]), ["localhost", "127.0.0.1"]))


def test_fewer_alternative_names_need_permission(broker: Identity) -> None:
    other = CA.issue("broker", ["localhost"])
    with pytest.raises(SettingError, match=r"ssl\.allow\.san\.changes=true") as caught:
        check(broker, other)
    assert "Keystore SubjectAltNames do not match" in (caught.value.phrase or "")
    check(broker, other, san=True)
