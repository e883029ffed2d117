"""Makes SSLContexts: what a listener or a client speaks, with which key, and whom it trusts.

The key reaches OpenSSL through memory (memfd, a pipe where there is none), never through a file on a disk. As in Java
any certificate in the trust store is trusted, not only one that signed itself (partial chains). Renegotiation and
compression are off. No trust store means the system's certificates.
"""

from __future__ import annotations

import base64
import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from typing import Final, NamedTuple

from barnabas.security import settings as keys
from barnabas.security.cipher_suites import OPENSSL_NAMES, TLS_1_3
from barnabas.security.errors import SettingError
from barnabas.security.settings import TlsSettings
from barnabas.security.stores import KeyStore, Stores
from barnabas.security.tls_errors import explain

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD: Final = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_NEWEST: Final = {"TLS": "TLSv1.3", **{name: name for name in _VERSIONS}}
CLIENT_AUTHS: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_LINE: Final = 64
_FLIGHTS: Final = 10
"""More than a handshake needs."""


class Offer(NamedTuple):
    """The versions of TLS, oldest first; the suites of TLS 1.2 by OpenSSL's names, None for the library's choice."""

    versions: tuple[str, ...]
    suites: tuple[str, ...] | None


def offer_of(settings: TlsSettings) -> Offer:
    """What is spoken. Raises SettingError for what cannot be done as it is asked for."""
    named = settings[keys.PROTOCOL] or ""
    newest = _NEWEST.get(named)
    if newest is None:
        raise SettingError(keys.PROTOCOL, named, f"must be one of {', '.join(_NEWEST)}")
    enabled = settings.words(keys.ENABLED_PROTOCOLS) or tuple(_VERSIONS)
    for version in enabled:
        if version not in _VERSIONS:
            why = " (older versions are broken, and refused)" if version in _OLD else ""
            raise SettingError(
                keys.ENABLED_PROTOCOLS,
                settings[keys.ENABLED_PROTOCOLS],
                f"must be of {', '.join(_VERSIONS)}{why}",
            )
    versions = tuple(version for version in _VERSIONS if version in enabled and version <= newest)
    if not versions:
        raise SettingError(
            keys.PROTOCOL, named, f"leaves none of {keys.ENABLED_PROTOCOLS}={','.join(enabled)}"
        )
    return _with_suites(settings, versions)


def _with_suites(settings: TlsSettings, versions: tuple[str, ...]) -> Offer:
    suites = settings.words(keys.CIPHER_SUITES)
    if not suites:
        return Offer(versions, None)
    shown = settings[keys.CIPHER_SUITES]
    for suite in suites:
        if suite not in OPENSSL_NAMES and suite not in TLS_1_3:
            near = get_close_matches(suite, [*OPENSSL_NAMES, *TLS_1_3], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise SettingError(
                keys.CIPHER_SUITES,
                shown,
                f"must be of suites that are known, by IANA's names; {suite} is not{hint}",
            )
    newer = [suite for suite in suites if suite in TLS_1_3]
    older = tuple(OPENSSL_NAMES[suite] for suite in suites if suite in OPENSSL_NAMES)
    if "TLSv1.3" in versions and newer and len(newer) < len(TLS_1_3):
        raise SettingError(
            keys.CIPHER_SUITES,
            shown,
            f"must have all suites of TLS 1.3 ({', '.join(TLS_1_3)}), among which this TLS library does not let a "
            "program choose, or none of them, which leaves TLS 1.2",
        )
    left = tuple(each for each in versions if (newer if each == "TLSv1.3" else older))
    if not left:
        raise SettingError(
            keys.CIPHER_SUITES,
            shown,
            f"must have suites for one of the enabled versions, {', '.join(versions)}",
        )
    return Offer(left, older or None)


def server_context(settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
    """The context of a listener. Raises SettingError."""
    if stores.key_store is None:
        raise SettingError(
            keys.KEYSTORE_LOCATION, None, "must be set for a listener that speaks TLS, or ssl.keystore.key"
        )
    auth = (settings[keys.CLIENT_AUTH] or "").lower()
    if auth not in CLIENT_AUTHS:
        raise SettingError(
            keys.CLIENT_AUTH, settings[keys.CLIENT_AUTH], f"must be one of {', '.join(CLIENT_AUTHS)}"
        )
    context = _context(ssl.PROTOCOL_TLS_SERVER, settings, stores)
    context.verify_mode = CLIENT_AUTHS[auth]
    if auth != "none":
        _trust(context, settings, stores, ssl.Purpose.CLIENT_AUTH)
    return context


def client_context(settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
    """The context of a client, which checks the server's name where ssl.endpoint.identification.algorithm is https."""
    algorithm = (settings[keys.ENDPOINT_IDENTIFICATION] or "").lower()
    if algorithm not in {"", "https"}:
        raise SettingError(
            keys.ENDPOINT_IDENTIFICATION,
            settings[keys.ENDPOINT_IDENTIFICATION],
            "must be https, or empty for no check",
        )
    context = _context(ssl.PROTOCOL_TLS_CLIENT, settings, stores)
    context.check_hostname = algorithm == "https"
    context.verify_mode = ssl.CERT_REQUIRED
    _trust(context, settings, stores, ssl.Purpose.SERVER_AUTH)
    return context


def verify_own_handshake(settings: TlsSettings, of_server: Stores, of_client: Stores) -> None:
    """Raises SettingError unless a client with one pair of stores completes a handshake with a server with the other.

    So brokers can reach each other by a listener whose stores they share. Names are not checked.
    Source: SslFactory.SslEngineValidator.
    """
    server = server_context(settings, of_server)
    client = client_context(TlsSettings({**settings.texts, keys.ENDPOINT_IDENTIFICATION: ""}), of_client)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(_FLIGHTS):
            sides = [side for side in sides if not _is_done(side)]
    except ssl.SSLError as error:
        location = settings[keys.KEYSTORE_LOCATION]
        name = keys.KEYSTORE_KEY if location is None else keys.KEYSTORE_LOCATION
        raise SettingError(
            name,
            location,
            "must have a certificate that the listener's own trust store trusts, since brokers are its clients: "
            f"{explain(error)}",
            phrase="A client SSLEngine created with the provided settings can't connect to a server SSLEngine "
            "created with those settings.",
        ) from None


def _is_done(side: ssl.SSLObject) -> bool:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


def _context(side: int, settings: TlsSettings, stores: Stores) -> ssl.SSLContext:
    offer = offer_of(settings)
    context = ssl.SSLContext(side)
    context.minimum_version = _VERSIONS[offer.versions[0]]
    context.maximum_version = _VERSIONS[offer.versions[-1]]
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_RENEGOTIATION
    if offer.suites is not None:
        try:
            context.set_ciphers(":".join(offer.suites))
        except ssl.SSLError:
            raise SettingError(
                keys.CIPHER_SUITES, settings[keys.CIPHER_SUITES], "has no suite that this TLS library offers"
            ) from None
    if stores.key_store is not None:
        _load_key(context, settings, stores.key_store)
    return context


def _load_key(context: ssl.SSLContext, settings: TlsSettings, store: KeyStore) -> None:
    chain = b"".join(_pem("CERTIFICATE", certificate) for certificate in store.chain)
    name = keys.KEYSTORE_LOCATION if settings[keys.KEYSTORE_LOCATION] is not None else keys.KEYSTORE_KEY
    with ExitStack() as stack:
        paths = [stack.enter_context(_in_memory(data)) for data in (chain, _pem("PRIVATE KEY", store.key))]
        try:
            context.load_cert_chain(*paths)
        except ssl.SSLError as error:
            value = settings[name] if name == keys.KEYSTORE_LOCATION else None
            raise SettingError(
                name, value, f"has a key or certificate that the TLS library refuses: {error.reason or error}"
            ) from None


def _trust(context: ssl.SSLContext, settings: TlsSettings, stores: Stores, purpose: ssl.Purpose) -> None:
    if stores.trusted is None:
        context.load_default_certs(purpose)
        return
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=b"".join(stores.trusted))
    except (ssl.SSLError, ValueError) as error:
        location = settings[keys.TRUSTSTORE_LOCATION]
        name = keys.TRUSTSTORE_CERTIFICATES if location is None else keys.TRUSTSTORE_LOCATION
        raise SettingError(name, location, f"has a certificate that cannot be read: {error}") from None


def _pem(label: str, der: bytes) -> bytes:
    text = base64.b64encode(der).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n".join([f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""]).encode()


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """A path that gives `data` to a reader, once, in memory."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("barnabas", os.MFD_CLOEXEC)
        os.write(descriptor, data)
    else:
        descriptor, end = os.pipe()
        os.write(end, data)
        os.close(end)
    try:
        yield f"/dev/fd/{descriptor}"
    finally:
        os.close(descriptor)
