"""Reads JKS, Java's own format of key stores until Java 9.

    4 bytes   0xFEEDFEED
    4 bytes   version, 1 or 2
    4 bytes   number of entries
    entries, each:
      4 bytes   1 for a key, 2 for a trusted certificate
      2 + n     alias, in Java's modified UTF-8 behind its length
      8 bytes   when it was made, ms since 1970
      a key:    4 + n bytes of EncryptedPrivateKeyInfo (see below), 4 bytes: how many certificates, certificates
      certificate: 2 + n type ("X.509"; only in version 2), 4 + n DER
    20 bytes  SHA-1 of the password in UTF-16, the words "Mighty Aphrodite", and all before

All numbers are big-endian. A key is protected by XOR with a stream of SHA-1 values: 20 bytes of salt, the encrypted
PKCS#8, and 20 bytes of SHA-1 of password and plain text, by which a wrong password is noticed.
Without a password the digest is not checked, as in Java: the certificates are read, the keys cannot be.
Source: sun.security.provider.JavaKeyStore, sun.security.provider.KeyProtector.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final

from barnabas.security.der import OCTET_STRING, SEQUENCE, DerError, object_identifier, single
from barnabas.security.errors import StoreError

MAGIC: Final = 0xFEEDFEED
JCEKS_MAGIC: Final = 0xCECECECE
_PROTECTION: Final = "1.3.6.1.4.1.42.2.17.1.1"
_WHITENER: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_KEY_ENTRY: Final = 1
_CERTIFICATE_ENTRY: Final = 2
_CUT_OFF: Final = "is cut off"


class JksKey:
    """A key entry: its key, as PKCS#8 protected by a password, and the certificates of its chain, the key's first."""

    __slots__ = ("alias", "chain", "protected")

    def __init__(self, alias: str, protected: bytes, chain: tuple[bytes, ...]) -> None:
        self.alias = alias
        self.protected = protected
        self.chain = chain

    def decrypted(self, password: str) -> bytes:
        """The key as plain PKCS#8. Raises StoreError for a wrong password."""
        return _decrypted(_protected_bytes(self.protected), _utf_16(password))


class JksStore:
    """The entries of a store, in their order."""

    def __init__(self, keys: list[JksKey], trusted: list[bytes]) -> None:
        self.keys = keys
        self.trusted = trusted
        """The trusted certificates, as DER."""


def is_jks(data: bytes) -> bool:
    """Whether a store is in this format; a file that is declared JKS may be PKCS#12 since Java 9."""
    return data[:4] == MAGIC.to_bytes(4, "big")


def read(data: bytes, password: str | None) -> JksStore:
    """The entries; their digest is checked where there is a password. Raises StoreError."""
    if password is not None:
        _check_digest(data, password)
    reader = _Reader(data[:-_DIGEST_BYTES])
    if reader.number() != MAGIC:
        raise StoreError("is not a JKS store")
    version = reader.number()
    if version not in {1, 2}:
        raise StoreError(f"is a JKS store of version {version}; versions 1 and 2 are known")
    store = JksStore([], [])
    for _ in range(reader.number()):
        kind, alias = reader.number(), reader.text()
        reader.skip(8)
        if kind == _KEY_ENTRY:
            protected = reader.block()
            chain = tuple(reader.certificate(version) for _ in range(reader.number()))
            store.keys.append(JksKey(alias, protected, chain))
        elif kind == _CERTIFICATE_ENTRY:
            store.trusted.append(reader.certificate(version))
        else:
            raise StoreError(f"has an entry of kind {kind}; keys (1) and certificates (2) are known")
    return store


def _check_digest(data: bytes, password: str) -> None:
    content, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    expected = hashlib.sha1(_utf_16(password) + _WHITENER + content, usedforsecurity=False).digest()
    if not hmac.compare_digest(expected, digest):
        raise StoreError("was made with another password, or is damaged")


def _utf_16(password: str) -> bytes:
    return password.encode("utf-16-be", "surrogatepass")


def _protected_bytes(info: bytes) -> bytes:
    """What EncryptedPrivateKeyInfo contains, where it is protected in Java's way."""
    try:
        algorithm, encrypted = single(info).expect(SEQUENCE).children()
        identifier = object_identifier(next(algorithm.children()).content)
    except (DerError, StopIteration, ValueError):
        raise StoreError("has a key that is damaged") from None
    if identifier != _PROTECTION:
        raise StoreError(f"has a key protected by the algorithm {identifier}, which is not that of JKS")
    return encrypted.expect(OCTET_STRING).content


def _decrypted(protected: bytes, password: bytes) -> bytes:
    if len(protected) <= 2 * _DIGEST_BYTES:
        raise StoreError("has a key that is damaged")
    block, encrypted = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES]
    stream = bytearray()
    while len(stream) < len(encrypted):
        block = hashlib.sha1(password + block, usedforsecurity=False).digest()
        stream += block
    plain = bytes(a ^ b for a, b in zip(encrypted, stream, strict=False))
    digest = hashlib.sha1(password + plain, usedforsecurity=False).digest()
    if not hmac.compare_digest(digest, protected[-_DIGEST_BYTES:]):
        raise StoreError("has a key with another password")
    return plain


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def skip(self, size: int) -> bytes:
        """The next bytes."""
        end = self._at + size
        if end > len(self._data):
            raise StoreError(_CUT_OFF)
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def number(self) -> int:
        value: int = struct.unpack(">I", self.skip(4))[0]
        return value

    def text(self) -> str:
        size: int = struct.unpack(">H", self.skip(2))[0]
        return self.skip(size).decode("utf-8", "replace")

    def block(self) -> bytes:
        return self.skip(self.number())

    def certificate(self, version: int) -> bytes:
        kind = self.text() if version == 2 else "X.509"
        if kind != "X.509":
            raise StoreError(f"has a certificate of type {kind}; only X.509 is known")
        return self.block()
