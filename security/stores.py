"""Stores: from settings to the key with its certificates, and to the certificates that are trusted.

Which settings go together is Kafka's: DefaultSslEngineFactory.createKeystore and createTruststore. Each combination
that it rejects raises SettingError here, with its message as the phrase.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from barnabas.security import jks, pem, pkcs12
from barnabas.security import settings as keys
from barnabas.security.errors import SettingError, StoreError
from barnabas.security.settings import SECRETS, TlsSettings

PEM: Final = "PEM"
TYPES: Final = (PEM, "PKCS12", "JKS")

ReadFile = Callable[[str], bytes]
"""Reads a file by its path; raises OSError."""


class KeyStore:
    """A private key and the certificates that vouch for it, its own first. Never shown."""

    __slots__ = ("chain", "key")

    def __init__(self, key: bytes, chain: tuple[bytes, ...]) -> None:
        self.key = key
        """Plain, as DER: PKCS#8."""
        self.chain = chain
        """As DER."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyStore) and (self.key, self.chain) == (other.key, other.chain)

    def __hash__(self) -> int:
        return hash((self.key, self.chain))

    def __repr__(self) -> str:
        return f"<KeyStore of {len(self.chain)} certificates>"


class Stores(NamedTuple):
    """The stores of one listener or client; None for one that is not configured."""

    key_store: KeyStore | None
    trusted: tuple[bytes, ...] | None
    """Certificates as DER."""


def read_file(path: str) -> bytes:
    """The ReadFile of a real disk."""
    with open(path, "rb") as file:
        return file.read()


def load_stores(settings: TlsSettings, read: ReadFile = read_file) -> Stores:
    """Both stores. Raises SettingError, which names the setting that is to be corrected."""
    return Stores(load_key_store(settings, read), load_trust_store(settings, read))


def store_files(settings: TlsSettings) -> tuple[str, ...]:
    """The files that the stores lie in."""
    paths = (settings[keys.KEYSTORE_LOCATION], settings[keys.TRUSTSTORE_LOCATION])
    return tuple(path for path in paths if path is not None)


# ---- our own key


def load_key_store(settings: TlsSettings, read: ReadFile = read_file) -> KeyStore | None:
    """The key with its certificates; None where nothing names one. Raises SettingError."""
    kind = _type_of(settings, keys.KEYSTORE_TYPE)
    location = settings[keys.KEYSTORE_LOCATION]
    key, chain = settings[keys.KEYSTORE_KEY], settings[keys.KEYSTORE_CERTIFICATE_CHAIN]
    _check_inline_key(settings, kind)
    if key is not None and chain is not None:
        return _pem_key_store(settings, (keys.KEYSTORE_KEY, key), (keys.KEYSTORE_CERTIFICATE_CHAIN, chain))
    password = settings[keys.KEYSTORE_PASSWORD]
    if kind == PEM and location is not None:
        if password is not None:
            _reject(
                settings,
                keys.KEYSTORE_PASSWORD,
                "cannot be set for a PEM file, whose key may have ssl.key.password",
                "SSL key store password cannot be specified with PEM format, only key password may be specified",
            )
        text = _text_of(settings, keys.KEYSTORE_LOCATION, read)
        return _pem_key_store(settings, (keys.KEYSTORE_LOCATION, text), (keys.KEYSTORE_LOCATION, text))
    if location is None:
        if password is not None:
            _reject(
                settings,
                keys.KEYSTORE_PASSWORD,
                "needs ssl.keystore.location, the file that it is for",
                "SSL key store is not specified, but key store password is specified.",
            )
        return None
    if password is None:
        _reject(
            settings,
            keys.KEYSTORE_LOCATION,
            f"needs ssl.keystore.password, as a {kind} file has one",
            "SSL key store is specified, but key store password is not specified.",
        )
    return _binary_key_store(settings, _bytes_of(settings, keys.KEYSTORE_LOCATION, read), password)


def _check_inline_key(settings: TlsSettings, kind: str) -> None:
    """Raises SettingError for a key in a property that does not go with the other settings."""
    key, chain = settings[keys.KEYSTORE_KEY], settings[keys.KEYSTORE_CERTIFICATE_CHAIN]
    if key is None:
        if chain is not None:
            _reject(
                settings,
                keys.KEYSTORE_CERTIFICATE_CHAIN,
                "needs ssl.keystore.key, the private key of the certificate",
                "SSL certificate chain is specified, but private key is not specified",
            )
        return
    if kind != PEM:
        _reject(
            settings,
            keys.KEYSTORE_KEY,
            f"needs ssl.keystore.type=PEM, which is {settings[keys.KEYSTORE_TYPE]}",
            "SSL private key can be specified only for PEM, but key store type is "
            f"{settings[keys.KEYSTORE_TYPE]}.",
        )
    if chain is None:
        _reject(
            settings,
            keys.KEYSTORE_KEY,
            "needs ssl.keystore.certificate.chain, the certificate of the key",
            "SSL private key is specified, but certificate chain is not specified.",
        )
    if settings[keys.KEYSTORE_LOCATION] is not None:
        _reject(
            settings,
            keys.KEYSTORE_LOCATION,
            "cannot be set together with ssl.keystore.key",
            "Both SSL key store location and separate private key are specified.",
        )
    if settings[keys.KEYSTORE_PASSWORD] is not None:
        _reject(
            settings,
            keys.KEYSTORE_PASSWORD,
            "cannot be set for PEM, whose key may have ssl.key.password",
            "SSL key store password cannot be specified with PEM format, only key password may be specified.",
        )


def _pem_key_store(settings: TlsSettings, key: tuple[str, str], chain: tuple[str, str]) -> KeyStore:
    """From PEM texts, each with the name of the setting that it comes from."""
    with _About(settings, key[0]):
        der = pem.private_key(key[1])
    plain = _plain_key(settings, der, key[0])
    with _About(settings, chain[0]):
        certificates = tuple(pem.certificates(chain[1]))
    return _checked(settings, KeyStore(plain, certificates), key[0])


def _binary_key_store(settings: TlsSettings, data: bytes, password: str) -> KeyStore:
    key_password = settings[keys.KEY_PASSWORD]
    with _About(settings, keys.KEYSTORE_LOCATION):
        if jks.is_jks(data):
            store = jks.read(data, password)
            if not store.keys:
                raise StoreError("has no private key")
            first = store.keys[0]
            plain = first.decrypted(password if key_password is None else key_password)
            return _checked(settings, KeyStore(plain, first.chain), keys.KEYSTORE_LOCATION)
        _check_magic(data)
        found = pkcs12.read(data, password)
        if found.key is None:
            raise StoreError("has no private key")
    if key_password not in {None, password}:
        raise SettingError(
            keys.KEY_PASSWORD,
            None,
            "must be that of the store, ssl.keystore.password: a PKCS12 file has one password",
        )
    return _checked(settings, KeyStore(found.key, found.chain), keys.KEYSTORE_LOCATION)


def _plain_key(settings: TlsSettings, der: bytes, name: str) -> bytes:
    """The key as plain PKCS#8. Raises SettingError."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        load_der_private_key,
    )

    password = settings[keys.KEY_PASSWORD]
    try:
        key = load_der_private_key(der, None if password is None else password.encode())
    except TypeError:  # a password for a key without one, or none for a key that has one
        if password is None:
            raise SettingError(
                keys.KEY_PASSWORD, None, f"must be set: the key in {name} is encrypted"
            ) from None
        raise SettingError(
            keys.KEY_PASSWORD, None, f"must not be set: the key in {name} is not encrypted"
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        if password is not None:
            raise SettingError(keys.KEY_PASSWORD, None, f"is not the password of the key in {name}") from None
        raise SettingError(name, _shown(settings, name), "has a private key that cannot be read") from None
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())


def _checked(settings: TlsSettings, store: KeyStore, name: str) -> KeyStore:
    """The store, if the first certificate is that of the key."""
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        PublicFormat,
        load_der_private_key,
    )
    from cryptography.x509 import load_der_x509_certificate

    form = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    try:
        ours = load_der_private_key(store.key, None).public_key().public_bytes(*form)
        theirs = load_der_x509_certificate(store.chain[0]).public_key().public_bytes(*form)
    except (ValueError, IndexError):
        raise SettingError(
            name, _shown(settings, name), "has a key or a certificate that cannot be read"
        ) from None
    if ours != theirs:
        raise SettingError(
            name, _shown(settings, name), "has a first certificate that is not that of its key"
        )
    return store


# ---- the certificates of others


def load_trust_store(settings: TlsSettings, read: ReadFile = read_file) -> tuple[bytes, ...] | None:
    """The trusted certificates as DER; None where nothing names them. Raises SettingError."""
    kind = _type_of(settings, keys.TRUSTSTORE_TYPE)
    location, password = settings[keys.TRUSTSTORE_LOCATION], settings[keys.TRUSTSTORE_PASSWORD]
    inline = settings[keys.TRUSTSTORE_CERTIFICATES]
    if inline is not None:
        if kind != PEM:
            _reject(
                settings,
                keys.TRUSTSTORE_CERTIFICATES,
                f"needs ssl.truststore.type=PEM, which is {settings[keys.TRUSTSTORE_TYPE]}",
                "SSL trust store certs can be specified only for PEM, but trust store type is "
                f"{settings[keys.TRUSTSTORE_TYPE]}.",
            )
        if location is not None:
            _reject(
                settings,
                keys.TRUSTSTORE_LOCATION,
                "cannot be set together with ssl.truststore.certificates",
                "Both SSL trust store location and separate trust certificates are specified.",
            )
    if password is not None and (inline is not None or (kind == PEM and location is not None)):
        _reject(
            settings,
            keys.TRUSTSTORE_PASSWORD,
            "cannot be set for PEM",
            "SSL trust store password cannot be specified for PEM format.",
        )
    if inline is not None:
        return _pem_certificates(settings, keys.TRUSTSTORE_CERTIFICATES, inline)
    if location is None:
        if password is not None:
            _reject(
                settings,
                keys.TRUSTSTORE_PASSWORD,
                "needs ssl.truststore.location, the file that it is for",
                "SSL trust store is not specified, but trust store password is specified.",
            )
        return None
    if kind == PEM:
        text = _text_of(settings, keys.TRUSTSTORE_LOCATION, read)
        return _pem_certificates(settings, keys.TRUSTSTORE_LOCATION, text)
    return _binary_trust_store(settings, _bytes_of(settings, keys.TRUSTSTORE_LOCATION, read), password)


def _pem_certificates(settings: TlsSettings, name: str, text: str) -> tuple[bytes, ...]:
    with _About(settings, name):
        return tuple(pem.certificates(text))


def _binary_trust_store(settings: TlsSettings, data: bytes, password: str | None) -> tuple[bytes, ...]:
    """As in Java, of a key's certificates only its own is trusted, not those that vouch for it."""
    with _About(settings, keys.TRUSTSTORE_LOCATION):
        if jks.is_jks(data):
            store = jks.read(data, password)
            trusted = [*store.trusted, *(key.chain[0] for key in store.keys if key.chain)]
        else:
            _check_magic(data)
            found = pkcs12.read(data, password)
            trusted = [*found.trusted, *found.chain[:1]]
        if not trusted:
            raise StoreError("has no certificate")
    return tuple(trusted)


# ---- both


def _type_of(settings: TlsSettings, name: str) -> str:
    kind = (settings[name] or "").upper()
    if kind not in TYPES:
        raise SettingError(name, settings[name], f"must be one of {', '.join(TYPES)}")
    return kind


def _check_magic(data: bytes) -> None:
    if data[:4] == jks.JCEKS_MAGIC.to_bytes(4, "big"):
        raise StoreError("is a JCEKS store: keytool -importkeystore -deststoretype PKCS12 converts it")
    if data[:10] == b"-----BEGIN":
        raise StoreError("is a PEM file, for which the type of the store must be PEM")


def _bytes_of(settings: TlsSettings, name: str, read: ReadFile) -> bytes:
    path = settings[name]
    assert path is not None
    try:
        return read(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise SettingError(
            name, path, f"cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None


def _text_of(settings: TlsSettings, name: str, read: ReadFile) -> str:
    return _bytes_of(settings, name, read).decode("utf-8", "replace")


def _shown(settings: TlsSettings, name: str) -> str | None:
    return None if name in SECRETS else settings[name]


def _reject(settings: TlsSettings, name: str, requirement: str, phrase: str) -> NoReturn:
    raise SettingError(name, _shown(settings, name), requirement, phrase=phrase)


class _About:
    """Turns a StoreError into a SettingError about the setting that names the store."""

    def __init__(self, settings: TlsSettings, name: str) -> None:
        self._settings = settings
        self._name = name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, StoreError):
            raise SettingError(self._name, _shown(self._settings, self._name), str(error)) from None
