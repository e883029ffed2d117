from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12
from cryptography.hazmat.primitives.serialization import NoEncryption as Plain

from barnabas.security.errors import StoreError
from barnabas.security.pkcs12 import read
from tests.support.certificates import Authority

ROOT = Authority("Root")
ISSUER = Authority("Issuer", ROOT)
OTHER = Authority("Other")
LEAF = ISSUER.issue("leaf", with_root=True)


def test_a_key_with_its_chain_and_what_is_trusted_besides() -> None:
    store = read(LEAF.pkcs12("secret", trusted=[OTHER]), "secret")
    assert store.key is not None
    assert store.chain == (LEAF.der, ISSUER.der, ROOT.der)
    assert store.trusted == (OTHER.der,)
    assert repr(store) == "<Pkcs12Store of 3 certificates of a key, 1 trusted>"


def test_certificates_without_a_key() -> None:
    data = pkcs12.serialize_key_and_certificates(
        None, None, None, [ROOT.certificate, OTHER.certificate], BestAvailableEncryption(b"secret")
    )
    assert read(data, "secret") == (None, (), (ROOT.der, OTHER.der))


def test_a_store_without_password() -> None:
    data = pkcs12.serialize_key_and_certificates(None, LEAF.key, LEAF.certificate, None, Plain())
    assert read(data, None).chain == (LEAF.der,)


def test_another_password_and_other_bytes_are_refused() -> None:
    with pytest.raises(StoreError, match="another password, or is damaged"):
        read(LEAF.pkcs12("secret"), "wrong")
    with pytest.raises(StoreError, match="is not PKCS#12"):
        read(b"x", "secret")


def test_a_key_without_its_certificate_is_refused() -> None:
    data = pkcs12.serialize_key_and_certificates(
        None, LEAF.key, None, [ROOT.certificate], BestAvailableEncryption(b"secret")
    )
    with pytest.raises(StoreError, match="without its certificate"):
        read(data, "secret")
