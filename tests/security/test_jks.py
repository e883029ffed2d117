"""Stores made by keytool: tests/conformance/test_security_java.py."""

from __future__ import annotations

import contextlib
import hashlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security import jks
from barnabas.security.errors import StoreError
from tests.security.test_der import encoded

PASSWORD = "changeit"
KEY = b"the key, as PKCS#8, which takes more than one block of SHA-1"
PROTECTION = bytes.fromhex("060a2b060104012a021101" + "01")


def utf_16(text: str) -> bytes:
    return text.encode("utf-16-be")


def protected(key: bytes = KEY, password: str = PASSWORD, algorithm: bytes = PROTECTION) -> bytes:
    salt = b"\x07" * 20
    stream, block = b"", salt
    while len(stream) < len(key):
        block = hashlib.sha1(utf_16(password) + block).digest()
        stream += block
    mixed = bytes(a ^ b for a, b in zip(key, stream, strict=False))
    content = salt + mixed + hashlib.sha1(utf_16(password) + key).digest()
    info = encoded(0x30, algorithm + b"\x05\x00") + encoded(0x04, content)
    return encoded(0x30, info)


def text(value: str) -> bytes:
    return struct.pack(">H", len(value.encode())) + value.encode()


def block(value: bytes) -> bytes:
    return struct.pack(">I", len(value)) + value


def certificate(value: bytes, version: int = 2, kind: str = "X.509") -> bytes:
    return (text(kind) if version == 2 else b"") + block(value)


def key_entry(*chain: bytes, version: int = 2, key: bytes | None = None) -> bytes:
    return (
        struct.pack(">I", 1)
        + text("me")
        + bytes(8)
        + block(protected() if key is None else key)
        + struct.pack(">I", len(chain))
        + b"".join(certificate(each, version) for each in chain)
    )


def trusted_entry(value: bytes, version: int = 2, **more: str) -> bytes:
    return struct.pack(">I", 2) + text("ca") + bytes(8) + certificate(value, version, **more)


def store(*entries: bytes, version: int = 2, password: str = PASSWORD, magic: int = jks.MAGIC) -> bytes:
    data = struct.pack(">III", magic, version, len(entries)) + b"".join(entries)
    return data + hashlib.sha1(utf_16(password) + b"Mighty Aphrodite" + data).digest()


@pytest.mark.parametrize("version", [1, 2])
def test_keys_and_trusted_certificates(version: int) -> None:
    data = store(key_entry(b"leaf", b"root", version=version), trusted_entry(b"ca", version), version=version)
    assert jks.is_jks(data)
    found = jks.read(data, PASSWORD)
    assert [(key.alias, key.chain, key.decrypted(PASSWORD)) for key in found.keys] == [
        ("me", (b"leaf", b"root"), KEY)
    ]
    assert found.trusted == [b"ca"]


def test_without_a_password_the_digest_is_not_checked() -> None:
    damaged = store(trusted_entry(b"ca"))[:-1] + b"?"
    assert jks.read(damaged, None).trusted == [b"ca"]
    with pytest.raises(StoreError, match="another password, or is damaged"):
        jks.read(damaged, PASSWORD)


def test_another_password_is_noticed() -> None:
    data = store(key_entry(b"leaf"))
    with pytest.raises(StoreError, match="another password"):
        jks.read(data, "wrong")
    with pytest.raises(StoreError, match="has a key with another password"):
        jks.read(data, PASSWORD).keys[0].decrypted("wrong")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is cut off"),
        (store(magic=1), "is not a JKS store"),
        (store(version=3), "version 3"),
        (store(struct.pack(">I", 3) + text("x") + bytes(8)), "an entry of kind 3"),
        (store(trusted_entry(b"", kind="PGP")), "type PGP"),
        (store(trusted_entry(b"x" * 9))[:-24] + bytes(20), "is cut off"),
    ],
)
def test_what_is_wrong_with_a_store_is_said(data: bytes, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        jks.read(data, None)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (b"", "damaged"),
        (b"\x30\x00", "damaged"),
        (encoded(0x30, encoded(0x30, b"") + encoded(0x04, b"")), "damaged"),
        (protected(algorithm=b"\x06\x03\x55\x04\x03"), "algorithm 2.5.4.3"),
        (protected(b""), "damaged"),
    ],
)
def test_what_is_wrong_with_a_key_is_said(key: bytes, said: str) -> None:
    with pytest.raises(StoreError, match=said):
        jks.read(store(key_entry(key=key)), PASSWORD).keys[0].decrypted(PASSWORD)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_store_or_raise_store_error(data: bytes) -> None:
    for each in (data, struct.pack(">II", jks.MAGIC, 2) + data):
        with contextlib.suppress(StoreError):
            for key in jks.read(each, None).keys:
                key.decrypted(PASSWORD)
