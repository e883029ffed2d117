"""What is in a certificate: its subject, its alternative names, and when it expires."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.security.der import SEQUENCE, DerError, Element, single
from barnabas.security.distinguished_names import canonical_name, rfc2253_name
from barnabas.security.errors import SettingError

_VERSION_TAG: Final = 0xA0
_FIELDS_BEFORE_SUBJECT: Final = 4
"""The serial number, the signature's algorithm, the issuer and the validity."""


def subject_of(certificate: bytes) -> bytes:
    """The subject of a certificate in DER, as DER. Raises DerError."""
    try:
        to_be_signed = next(single(certificate).expect(SEQUENCE).children())
        fields = list(to_be_signed.expect(SEQUENCE).children())
        start = 1 if fields[0].tag == _VERSION_TAG else 0
        subject: Element = fields[start + _FIELDS_BEFORE_SUBJECT]
    except (StopIteration, IndexError):
        raise DerError("the certificate is cut off") from None
    return subject.expect(SEQUENCE).whole


def subject_name(certificate: bytes) -> str:
    """The name of the subject as Java writes it (X500Principal.getName). Raises DerError."""
    return rfc2253_name(subject_of(certificate))


def expires_s(certificate: bytes) -> float:
    """When a certificate in DER expires, in seconds since 1970."""
    from cryptography.x509 import load_der_x509_certificate

    return load_der_x509_certificate(certificate).not_valid_after_utc.timestamp()


def first_expiry_s(chain: Sequence[bytes]) -> float:
    """When the first certificate of a chain expires, in seconds since 1970."""
    return min(map(expires_s, chain))


def alternative_names(certificate: bytes) -> frozenset[str]:
    """The subject's alternative names, each with its kind."""
    from cryptography import x509

    extensions = x509.load_der_x509_certificate(certificate).extensions
    try:
        found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    return frozenset(f"{type(name).__name__}:{name.value}" for name in found)


def check_replacement(
    old: Sequence[bytes], new: Sequence[bytes], *, allow_dn_changes: bool, allow_san_changes: bool
) -> None:
    """Raises SettingError unless a listener's certificate may be replaced by another one while it is open.

    Both are chains, of which the first certificates count. Source: SslFactory.CertificateEntries.
    """
    if not allow_dn_changes:
        names = subject_name(old[0]), subject_name(new[0])
        if canonical_name(subject_of(old[0])) != canonical_name(subject_of(new[0])):
            raise SettingError(
                "ssl.keystore.location",
                None,
                "must keep the name of the certificate, unless ssl.allow.dn.changes=true",
                phrase="Keystore DistinguishedName does not match:  "
                f"existing={{DN={names[0]}}}, new={{DN={names[1]}}}",
            )
    if not allow_san_changes:
        before, after = alternative_names(old[0]), alternative_names(new[0])
        if not before <= after:
            raise SettingError(
                "ssl.keystore.location",
                None,
                "must keep the alternative names of the certificate, unless ssl.allow.san.changes=true",
                phrase="Keystore SubjectAltNames do not match:  "
                f"existing={{SAN={sorted(before)}}}, new={{SAN={sorted(after)}}}",
            )
