"""Reads PEM: certificates and one private key, from a file or from the value of a property.

As in Kafka's DefaultSslEngineFactory.PemParser, text around the entries is skipped, and the lines of an entry may be
separated by blanks, as they are in a property of one line.
"""

from __future__ import annotations

import base64
import re
from typing import Final

from barnabas.security.errors import StoreError

_ENTRY: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+?)-----(.*?)-----END \1-----", re.DOTALL)
_HEADER: Final = re.compile(r"^\s*[^\s:]+:[^\r\n]*$", re.MULTILINE)
CERTIFICATE_NAMES: Final = ("CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
KEY_SUFFIX: Final = "PRIVATE KEY"


def certificates(text: str) -> list[bytes]:
    """The certificates, as DER, in their order. Raises StoreError where there is none."""
    found = [_decoded(label, body) for label, body in _ENTRY.findall(text) if label in CERTIFICATE_NAMES]
    if not found:
        raise StoreError("has no certificate: -----BEGIN CERTIFICATE----- is expected")
    return found


def private_key(text: str) -> bytes:
    """The one private key, as DER: PKCS#8, encrypted or not, or the form of its algorithm. Raises StoreError."""
    found = [(label, body) for label, body in _ENTRY.findall(text) if label.endswith(KEY_SUFFIX)]
    if not found:
        raise StoreError("has no private key: -----BEGIN PRIVATE KEY----- is expected (PKCS#8)")
    if len(found) > 1:
        raise StoreError(f"has {len(found)} private keys, where one is expected")
    label, body = found[0]
    if _HEADER.search(body):
        raise StoreError("has a private key encrypted in the old form: openssl pkcs8 -topk8 makes it PKCS#8")
    return _decoded(label, body)


def _decoded(label: str, body: str) -> bytes:
    try:
        return base64.b64decode("".join(body.split()), validate=True)
    except ValueError:  # binascii.Error is one
        raise StoreError(f"has a {label} that is not base 64") from None
