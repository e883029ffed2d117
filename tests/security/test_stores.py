"""Stores made by keytool: tests/conformance/test_security_java.py."""

from __future__ import annotations

import pytest

from barnabas.security.errors import SettingError
from barnabas.security.settings import TlsSettings
from barnabas.security.stores import KeyStore, Stores, load_stores, read_file, store_files
from tests.security import test_jks as jks_format
from tests.support.certificates import Authority, Identity

CA = Authority("Root")
ISSUER = Authority("Issuer", CA)
ME = ISSUER.issue("me", ["localhost"])
SECRET = "changeit"

Texts = dict[str, str]


class Files:
    """A disk."""

    def __init__(self, **files: bytes | str) -> None:
        self.files = {
            f"/{name}": data.encode() if isinstance(data, str) else data for name, data in files.items()
        }

    def __call__(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory")
        return self.files[path]


def load(files: Files | None = None, **texts: str) -> Stores:
    """Settings are named without ssl. and with _ for the dots."""
    settings = TlsSettings({f"ssl.{name.replace('_', '.')}": text for name, text in texts.items()})
    return load_stores(settings, files or Files())


def plain(identity: Identity) -> bytes:
    from barnabas.security import pem

    return pem.private_key(identity.key_pem())


def jks(identity: Identity, *trusted: bytes, password: str = SECRET, key_password: str = SECRET) -> bytes:
    entries = [
        jks_format.key_entry(
            *identity.chain_der, key=jks_format.protected(plain(identity), password=key_password)
        )
    ]
    entries += [jks_format.trusted_entry(each) for each in trusted]
    return jks_format.store(*entries, password=password)


PEM_TYPE = {"keystore_type": "PEM"}
INLINE = {**PEM_TYPE, "keystore_key": ME.key_pem(), "keystore_certificate_chain": ME.chain_pem()}
FILE = Files(
    pem=ME.key_pem() + ME.chain_pem(),
    p12=ME.pkcs12(SECRET),
    jks=jks(ME, CA.der),
    ca=CA.pem,
    both_in_p12=ME.pkcs12(SECRET, trusted=[Authority("Other")]),
)
EXPECTED = KeyStore(plain(ME), ME.chain_der)


@pytest.mark.parametrize(
    "texts",
    [
        INLINE,
        {**INLINE, "keystore_key": ME.key_pem("p"), "key_password": "p"},
        {"keystore_type": "pem", "keystore_location": "/pem"},
        {"keystore_type": "PKCS12", "keystore_location": "/p12", "keystore_password": SECRET},
        {
            "keystore_type": "PKCS12",
            "keystore_location": "/p12",
            "keystore_password": SECRET,
            "key_password": SECRET,
        },
        {"keystore_type": "JKS", "keystore_location": "/jks", "keystore_password": SECRET},
        {"keystore_location": "/p12", "keystore_password": SECRET},
    ],
)
def test_a_key_from_each_kind_of_store(texts: Texts) -> None:
    key_store = load(FILE, **texts).key_store
    assert key_store == EXPECTED
    assert repr(key_store) == "<KeyStore of 2 certificates>"
    assert hash(key_store) == hash(EXPECTED)


def test_a_key_of_a_jks_store_may_have_a_password_of_its_own() -> None:
    files = Files(jks=jks(ME, key_password="own"))
    texts = {"keystore_location": "/jks", "keystore_password": SECRET}
    assert load(files, **texts, key_password="own").key_store == EXPECTED
    with pytest.raises(SettingError, match=r"ssl.keystore.location=/jks has a key with another password"):
        load(files, **texts)


@pytest.mark.parametrize(
    ("texts", "trusted"),
    [
        ({"truststore_type": "PEM", "truststore_certificates": CA.pem}, [CA.der]),
        ({"truststore_type": "PEM", "truststore_location": "/ca"}, [CA.der]),
        ({"truststore_location": "/jks", "truststore_password": SECRET}, [CA.der, ME.der]),
        ({"truststore_location": "/jks"}, [CA.der, ME.der]),
        ({"truststore_location": "/p12", "truststore_password": SECRET}, [ME.der]),
    ],
)
def test_trusted_certificates_of_each_kind_of_store(texts: Texts, trusted: list[bytes]) -> None:
    assert load(FILE, **texts) == (None, tuple(trusted))


def test_no_store_at_all() -> None:
    assert load() == (None, None)


def test_the_files_of_the_stores(tmp_path: object) -> None:
    settings = TlsSettings({"ssl.keystore.location": "/a", "ssl.truststore.location": "/b"})
    assert store_files(settings) == ("/a", "/b")
    assert store_files(TlsSettings({})) == ()
    assert read_file(__file__).startswith(b'"""Stores')


@pytest.mark.parametrize(
    ("texts", "said", "phrase"),
    [
        (
            {**INLINE, "keystore_type": "JKS"},
            "ssl.keystore.key needs ssl.keystore.type=PEM, which is JKS",
            "SSL private key can be specified only for PEM, but key store type is JKS.",
        ),
        (
            {**PEM_TYPE, "keystore_key": ME.key_pem()},
            "ssl.keystore.key needs ssl.keystore.certificate.chain",
            "SSL private key is specified, but certificate chain is not specified.",
        ),
        (
            {**INLINE, "keystore_location": "/pem"},
            "ssl.keystore.location=/pem cannot be set together",
            "Both SSL key store location and separate private key are specified.",
        ),
        (
            {**INLINE, "keystore_password": "p"},
            "ssl.keystore.password cannot be set for PEM",
            "SSL key store password cannot be specified with PEM format, only key password may be specified.",
        ),
        (
            {**PEM_TYPE, "keystore_certificate_chain": ME.pem},
            "ssl.keystore.certificate.chain needs ssl.keystore.key",
            "SSL certificate chain is specified, but private key is not specified",
        ),
        (
            {**PEM_TYPE, "keystore_location": "/pem", "keystore_password": "p"},
            "ssl.keystore.password cannot be set for a PEM file",
            "SSL key store password cannot be specified with PEM format, only key password may be specified",
        ),
        (
            {"keystore_password": "p"},
            "ssl.keystore.password needs ssl.keystore.location",
            "SSL key store is not specified, but key store password is specified.",
        ),
        (
            {"keystore_location": "/p12"},
            "ssl.keystore.location=/p12 needs ssl.keystore.password",
            "SSL key store is specified, but key store password is not specified.",
        ),
        (
            {"truststore_certificates": CA.pem},
            "ssl.truststore.certificates needs ssl.truststore.type=PEM, which is JKS",
            "SSL trust store certs can be specified only for PEM, but trust store type is JKS.",
        ),
        (
            {"truststore_type": "PEM", "truststore_certificates": CA.pem, "truststore_location": "/ca"},
            "ssl.truststore.location=/ca cannot be set together",
            "Both SSL trust store location and separate trust certificates are specified.",
        ),
        (
            {"truststore_type": "PEM", "truststore_certificates": CA.pem, "truststore_password": "p"},
            "ssl.truststore.password cannot be set for PEM",
            "SSL trust store password cannot be specified for PEM format.",
        ),
        (
            {"truststore_type": "PEM", "truststore_location": "/ca", "truststore_password": "p"},
            "ssl.truststore.password cannot be set for PEM",
            "SSL trust store password cannot be specified for PEM format.",
        ),
        (
            {"truststore_password": "p"},
            "ssl.truststore.password needs ssl.truststore.location",
            "SSL trust store is not specified, but trust store password is specified.",
        ),
    ],
)
def test_combinations_that_kafka_rejects(texts: Texts, said: str, phrase: str) -> None:
    with pytest.raises(SettingError, match=said) as caught:
        load(FILE, **texts)
    assert caught.value.phrase == phrase


P12 = {"keystore_location": "/p12", "keystore_password": SECRET}


@pytest.mark.parametrize(
    ("files", "texts", "said"),
    [
        (FILE, {"keystore_type": "BCFKS"}, "ssl.keystore.type=BCFKS must be one of PEM, PKCS12, JKS"),
        (FILE, {"truststore_type": "X"}, "ssl.truststore.type=X must be one of"),
        (Files(), P12, "ssl.keystore.location=/p12 cannot be read: No such file"),
        (
            FILE,
            {**P12, "keystore_password": "w"},
            "ssl.keystore.location=/p12 was made with another password",
        ),
        (FILE, {**P12, "key_password": "other"}, "ssl.key.password must be that of the store"),
        (Files(p12=b"\xce\xce\xce\xce"), P12, "is a JCEKS store: keytool -importkeystore"),
        (Files(p12=ME.pem), P12, "is a PEM file, for which the type of the store must be PEM"),
        (Files(p12=jks_format.store()), P12, "ssl.keystore.location=/p12 has no private key"),
        (
            Files(p12=jks_format.store()),
            {"truststore_location": "/p12"},
            "truststore.location=/p12 has no cert",
        ),
        (
            FILE,
            {**INLINE, "keystore_key": ME.key_pem("p")},
            "ssl.key.password must be set: .*ssl.keystore.key",
        ),
        (FILE, {**INLINE, "key_password": "p"}, "ssl.key.password must not be set"),
        (
            FILE,
            {**INLINE, "keystore_key": ME.key_pem("p"), "key_password": "w"},
            "ssl.key.password is not the password of the key in ssl.keystore.key",
        ),
        (
            FILE,
            {**INLINE, "keystore_key": "-----BEGIN PRIVATE KEY-----AAAA-----END PRIVATE KEY-----"},
            "ssl.keystore.key has a private key that cannot be read",
        ),
        (FILE, {**INLINE, "keystore_certificate_chain": ""}, "certificate.chain has no certificate"),
        (FILE, {**INLINE, "keystore_certificate_chain": CA.pem}, "is not that of its key"),
        (
            FILE,
            {
                **INLINE,
                "keystore_certificate_chain": "-----BEGIN CERTIFICATE-----AAAA-----END CERTIFICATE-----",
            },
            "has a key or a certificate that cannot be read",
        ),
        (Files(pem=CA.pem), {**PEM_TYPE, "keystore_location": "/pem"}, "location=/pem has no private key"),
    ],
)
def test_what_is_wrong_with_a_store_names_its_setting(files: Files, texts: Texts, said: str) -> None:
    with pytest.raises(SettingError, match=said) as caught:
        load(files, **texts)
    assert (
        "PRIVATE KEY" not in str(caught.value)
        or "BEGIN PRIVATE KEY" in said
        or "is expected" in str(caught.value)
    )


def test_a_pkcs12_store_without_a_key_is_no_key_store() -> None:
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    data = pkcs12.serialize_key_and_certificates(
        None, None, None, [CA.certificate], BestAvailableEncryption(SECRET.encode())
    )
    with pytest.raises(SettingError, match="has no private key"):
        load(Files(p12=data), **P12)
    trust = {"truststore_location": "/p12", "truststore_password": SECRET}
    assert load(Files(p12=data), **trust).trusted == (CA.der,)
