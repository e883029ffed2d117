from __future__ import annotations

import os
import ssl
import sys
from collections.abc import Callable

import pytest

from barnabas.security.contexts import client_context, offer_of, server_context, verify_own_handshake
from barnabas.security.errors import SettingError
from barnabas.security.settings import TlsSettings
from barnabas.security.stores import Stores, load_stores
from tests.support.certificates import Authority, Identity, rsa_key

CA = Authority("Root")
ISSUER = Authority("Issuer", CA)
BROKER = CA.issue("broker", ["localhost", "127.0.0.1"])


def settings(**texts: str) -> TlsSettings:
    return TlsSettings({f"ssl.{name.replace('_', '.')}": text for name, text in texts.items()})


def own(
    identity: Identity = BROKER, *, trusted: str | None = CA.pem, **texts: str
) -> tuple[TlsSettings, Stores]:
    trust = {} if trusted is None else {"truststore_type": "PEM", "truststore_certificates": trusted}
    given = settings(
        keystore_type="PEM",
        keystore_key=identity.key_pem(),
        keystore_certificate_chain=identity.chain_pem(),
        **trust,
        **texts,
    )
    return given, load_stores(given)


def shake_hands(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str = "localhost"
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


def client(trusted: str = CA.pem, **texts: str) -> ssl.SSLContext:
    given = settings(truststore_type="PEM", truststore_certificates=trusted, **texts)
    return client_context(given, load_stores(given))


@pytest.mark.parametrize("identity", [BROKER, CA.issue("r", ["localhost"], key=rsa_key())])
def test_a_handshake(identity: Identity) -> None:
    ours, theirs = shake_hands(server_context(*own(identity)), client())
    assert ours.version() == "TLSv1.3"
    assert theirs.getpeercert(binary_form=True) is None


def test_the_key_stays_in_memory_without_memfd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    before = len(os.listdir("/dev/fd"))
    shake_hands(server_context(*own()), client())
    assert len(os.listdir("/dev/fd")) == before


def test_any_certificate_in_the_trust_store_is_trusted() -> None:
    server = server_context(*own(ISSUER.issue("b", ["localhost"])))
    shake_hands(server, client(ISSUER.pem))  # which has not signed itself
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client(BROKER.pem))


def test_names_are_checked_unless_that_is_turned_off() -> None:
    server = server_context(*own())
    shake_hands(server, client(), "127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client(), "other")
    shake_hands(server, client(endpoint_identification_algorithm=""), "other")


@pytest.mark.parametrize(
    ("auth", "shows", "seen"),
    [
        ("none", True, False),
        ("requested", True, True),
        ("requested", False, False),
        ("required", True, True),
        ("required", False, None),
    ],
)
def test_certificates_of_clients(auth: str, shows: bool, seen: bool | None) -> None:
    server = server_context(*own(client_auth=auth))
    me = client_context(*own(CA.issue("me"))) if shows else client()
    if seen is None:
        with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
            shake_hands(server, me)
    else:
        assert (shake_hands(server, me)[1].getpeercert(binary_form=True) is not None) is seen


def test_a_bad_certificate_is_refused_even_where_none_is_needed() -> None:
    server = server_context(*own(client_auth="requested"))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client_context(*own(Authority("Other").issue("me"))))


def test_without_a_trust_store_the_systems_certificates_count() -> None:
    context = server_context(*own(trusted=None, client_auth="required"))
    assert not context.verify_flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server_context(*own()), client_context(*own(trusted=None)))


def test_neither_compression_nor_renegotiation() -> None:
    options = server_context(*own()).options
    assert options & ssl.OP_NO_COMPRESSION
    assert options & ssl.OP_NO_RENEGOTIATION


ALL_OF_1_3 = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
OLD = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


@pytest.mark.parametrize(
    ("texts", "versions", "suites"),
    [
        ({}, "TLSv1.2 TLSv1.3", None),
        ({"enabled_protocols": ""}, "TLSv1.2 TLSv1.3", None),
        ({"protocol": "TLS", "enabled_protocols": "TLSv1.3"}, "TLSv1.3", None),
        ({"protocol": "TLSv1.2"}, "TLSv1.2", None),
        ({"cipher_suites": OLD}, "TLSv1.2", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ({"cipher_suites": f"{OLD},{ALL_OF_1_3}"}, "TLSv1.2 TLSv1.3", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        ({"cipher_suites": ALL_OF_1_3}, "TLSv1.3", None),
        (
            {"cipher_suites": f"{OLD},TLS_AES_256_GCM_SHA384", "protocol": "TLSv1.2"},
            "TLSv1.2",
            "ECDHE-ECDSA-AES128-GCM-SHA256",
        ),
    ],
)
def test_versions_and_suites(texts: dict[str, str], versions: str, suites: str | None) -> None:
    offer = offer_of(settings(**texts))
    assert " ".join(offer.versions) == versions
    assert (None if offer.suites is None else ":".join(offer.suites)) == suites
    shake_hands(server_context(*own(BROKER, **texts)), client())


def test_the_suite_that_is_asked_for_is_used() -> None:
    ours, _ = shake_hands(server_context(*own(cipher_suites=OLD)), client())
    assert ours.cipher() == ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"protocol": "SSLv3"}, "ssl.protocol=SSLv3 must be one of TLS, TLSv1.2, TLSv1.3"),
        (
            {"enabled_protocols": "TLSv1.1,TLSv1.2"},
            "enabled.protocols=TLSv1.1,TLSv1.2 must be .*older versions",
        ),
        ({"enabled_protocols": "TLSv2"}, "must be of TLSv1.2, TLSv1.3$"),
        ({"protocol": "TLSv1.2", "enabled_protocols": "TLSv1.3"}, "ssl.protocol=TLSv1.2 leaves none of"),
        ({"cipher_suites": "TLS_AES_256_GCM_SHA384"}, "must have all suites of TLS 1.3"),
        ({"cipher_suites": "TLS_AES_256_GCM_SHA38"}, "did you mean TLS_AES_256_GCM_SHA384"),
        ({"cipher_suites": "AES"}, "AES is not$"),
        ({"cipher_suites": OLD, "enabled_protocols": "TLSv1.3"}, "must have suites for one of the enabled"),
        ({"client_auth": "maybe"}, "ssl.client.auth=maybe must be one of none, requested, required"),
    ],
)
def test_what_cannot_be_done_is_refused(texts: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        server_context(*own(BROKER, **texts))


def test_a_listener_needs_a_key() -> None:
    with pytest.raises(
        SettingError, match=r"ssl.keystore.location must be set for a listener that speaks TLS"
    ):
        server_context(settings(), Stores(None, None))


def test_a_client_checks_names_by_https_or_not_at_all() -> None:
    with pytest.raises(SettingError, match="algorithm=ldaps must be https, or empty"):
        client(endpoint_identification_algorithm="ldaps")


@pytest.mark.parametrize("make", [server_context, client_context])
def test_a_trusted_certificate_that_is_none_is_refused(
    make: Callable[[TlsSettings, Stores], ssl.SSLContext],
) -> None:
    given, stores = own(client_auth="required")
    with pytest.raises(
        SettingError, match=r"ssl.truststore.certificates has a certificate that cannot be read"
    ):
        make(given, stores._replace(trusted=(b"\x30\x00",)))


def test_a_key_that_the_library_refuses_is_refused() -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa

    weak = CA.issue("weak", key=rsa.generate_private_key(65537, 1024))
    with pytest.raises(
        SettingError, match=r"ssl.keystore.key has a key or certificate that the TLS library refuses"
    ):
        server_context(*own(weak))


def test_suites_that_the_library_lacks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.security.contexts.OPENSSL_NAMES", {"TLS_X": "X"})
    with pytest.raises(SettingError, match="has no suite that this TLS library offers"):
        server_context(*own(cipher_suites="TLS_X"))


def test_brokers_trust_their_own_certificate() -> None:
    given, stores = own(client_auth="required", endpoint_identification_algorithm="https")
    verify_own_handshake(given, stores, stores)
    _, others = own(Authority("Other").issue("broker"), client_auth="required")
    for pair in ((stores, others), (others, stores)):
        with pytest.raises(
            SettingError, match="must have a certificate that the listener's own trust store"
        ) as caught:
            verify_own_handshake(given, *pair)
        assert "can't connect to a server SSLEngine" in (caught.value.phrase or "")
