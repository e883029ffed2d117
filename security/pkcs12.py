"""Reads PKCS#12, the usual format of key stores (RFC 7292), by `cryptography`."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.security.errors import StoreError


class Pkcs12Store(NamedTuple):
    """Certificates as DER. `key` is plain PKCS#8, and `chain` begins with its certificate; None and () without a key.

    `trusted` are the certificates that belong to no key. The format as it is read does not say which certificates
    were imported as trusted ones: those on the way from the key's certificate to its root are not among them.
    """

    key: bytes | None
    chain: tuple[bytes, ...]
    trusted: tuple[bytes, ...]

    def __repr__(self) -> str:
        """Without the key."""
        return f"<Pkcs12Store of {len(self.chain)} certificates of a key, {len(self.trusted)} trusted>"


def read(data: bytes, password: str | None) -> Pkcs12Store:
    """The store. Raises StoreError for a wrong password and for bytes that are no PKCS#12."""
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    secret = None if password is None else password.encode()
    try:
        store = pkcs12.load_pkcs12(data, secret)
    except ValueError as error:
        if "assword" in str(error):  # "Invalid password or PKCS12 data"
            raise StoreError("was made with another password, or is damaged") from None
        raise StoreError("is not PKCS#12") from None
    der = Encoding.DER
    others = [each.certificate for each in store.additional_certs]
    if store.key is None:
        all_of_them = [*([] if store.cert is None else [store.cert.certificate]), *others]
        return Pkcs12Store(None, (), tuple(each.public_bytes(der) for each in all_of_them))
    if store.cert is None:
        raise StoreError("has a private key without its certificate")
    chain = [store.cert.certificate]
    while issuer := next(
        (each for each in others if each.subject == chain[-1].issuer and each not in chain), None
    ):
        chain.append(issuer)
    return Pkcs12Store(
        store.key.private_bytes(der, PrivateFormat.PKCS8, NoEncryption()),
        tuple(each.public_bytes(der) for each in chain),
        tuple(each.public_bytes(der) for each in others if each not in chain),
    )
