from __future__ import annotations

import contextlib

import pytest
from cryptography.hazmat.primitives.serialization import PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security import pem
from barnabas.security.errors import StoreError
from tests.support.certificates import Authority, rsa_key

CA = Authority()
ONE = CA.issue("one")


def test_certificates_come_in_their_order_with_text_around_them() -> None:
    text = f"subject=/CN=one\n{ONE.pem}\nbetween\n{CA.pem}end"
    assert pem.certificates(text) == [ONE.der, CA.der]


def test_an_entry_may_be_on_one_line_as_in_a_property() -> None:
    assert pem.certificates(" ".join(ONE.pem.split("\n"))) == [ONE.der]


def test_one_private_key_is_found_among_certificates() -> None:
    key = pem.private_key(ONE.pem + ONE.key_pem() + CA.pem)
    assert key == pem.private_key(ONE.key_pem())
    assert pem.private_key(ONE.key_pem("secret")) != key


def test_an_old_form_without_password_is_read() -> None:
    text = CA.issue("r", key=rsa_key()).key_pem(form=PrivateFormat.TraditionalOpenSSL)
    assert "BEGIN RSA PRIVATE KEY" in text
    assert pem.private_key(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no private key"),
        (ONE.key_pem() * 2, "has 2 private keys"),
        (ONE.key_pem().replace("-----\nM", "-----\nM*"), "has a PRIVATE KEY that is not base 64"),
    ],
)
def test_what_is_wrong_with_a_key_is_said(text: str, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        pem.private_key(text)


def test_a_key_encrypted_in_the_old_form_is_refused_with_the_way_out() -> None:
    text = CA.issue("r", key=rsa_key()).key_pem("secret", PrivateFormat.TraditionalOpenSSL)
    with pytest.raises(StoreError, match="openssl pkcs8 -topk8"):
        pem.private_key(text)


def test_a_file_without_certificates_is_refused() -> None:
    with pytest.raises(StoreError, match="has no certificate"):
        pem.certificates(ONE.key_pem())


@given(st.text())
def test_any_text_is_read_or_raises_store_error(text: str) -> None:
    for read in (pem.certificates, pem.private_key):
        with contextlib.suppress(StoreError):
            read(f"-----BEGIN PRIVATE KEY-----{text}-----END PRIVATE KEY-----")
