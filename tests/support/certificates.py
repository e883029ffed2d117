"""Certificates, keys and stores for tests, made when they are needed: an authority, and what it signs.

authority = Authority("Test CA")
server = authority.issue("broker", names=["localhost", "127.0.0.1"])
server.key_pem(), server.chain_pem(), authority.pem, server.pkcs12("secret")
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


class Identity:
    """A private key, its certificate, and the certificates that vouch for it."""

    def __init__(
        self, key: Key, certificate: x509.Certificate, above: Sequence[x509.Certificate] = ()
    ) -> None:
        self.key = key
        self.certificate = certificate
        self.above = tuple(above)

    @property
    def der(self) -> bytes:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def chain_der(self) -> tuple[bytes, ...]:
        return tuple(each.public_bytes(Encoding.DER) for each in (self.certificate, *self.above))

    def chain_pem(self) -> str:
        """The certificate and those above it."""
        return "".join(each.public_bytes(Encoding.PEM).decode() for each in (self.certificate, *self.above))

    def key_pem(self, password: str | None = None, form: PrivateFormat = PrivateFormat.PKCS8) -> str:
        return self.key.private_bytes(Encoding.PEM, form, _encryption(password)).decode()

    def pkcs12(self, password: str, trusted: Sequence[Identity] = ()) -> bytes:
        others = [*self.above, *(each.certificate for each in trusted)]
        return pkcs12.serialize_key_and_certificates(
            b"me", self.key, self.certificate, others, _encryption(password)
        )


def _encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())


class Authority(Identity):
    """Signs certificates."""

    def __init__(self, name: str = "Test CA", signed_by: Authority | None = None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = common_name(name)
        issuer, issuer_key = (
            (subject, key) if signed_by is None else (signed_by.certificate.subject, signed_by.key)
        )
        certificate = (
            _builder(subject, issuer, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(issuer_key, hashes.SHA256())
        )
        above = () if signed_by is None else (signed_by.certificate, *signed_by.above)
        super().__init__(key, certificate, above)

    def issue(
        self,
        name: str | x509.Name,
        names: Sequence[str] = (),
        *,
        ends_in_days: float = 2,
        key: Key | None = None,
        with_root: bool = False,
    ) -> Identity:
        """A certificate for `name`, with alternative names. It has expired where `ends_in_days` is negative."""
        key = key or ec.generate_private_key(ec.SECP256R1())
        subject = common_name(name) if isinstance(name, str) else name
        builder = _builder(subject, self.certificate.subject, key, ends_in_days)
        if names:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_alternative(each) for each in names]), critical=False
            )
        above = (self.certificate, *self.above)
        return Identity(key, builder.sign(self.key, hashes.SHA256()), above if with_root else above[:-1])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, ends_in_days: float = 2
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_now() - 9 * DAY)
        .not_valid_after(_now() + ends_in_days * DAY)
    )


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    """One for all tests: it takes long to make."""
    return rsa.generate_private_key(65537, 2048)
