"""ListenerSecurity: what the connections of one listener go through before their first request.

It has a part for TLS and one for logins, each exactly where the security protocol asks for it: a listener never serves
a client without one of them because it was forgotten.

    protocol       | stream          | principal
    ---------------+-----------------+------------------------------------------------------------------
    PLAINTEXT      | SocketTransport | ANONYMOUS
    SSL            | TlsTransport    | of the client's certificate; ANONYMOUS without one
    SASL_PLAINTEXT | SocketTransport | of the login
    SASL_SSL       | TlsTransport    | of the login; a certificate is checked, and names nobody
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.network.failure_log import FailureLog, sanitized
from barnabas.broker.network.transport import SocketTransport, Transport
from barnabas.broker.probes import ListenerProbe
from barnabas.broker.request import ANONYMOUS, ConnectionInfo, KafkaPrincipal
from barnabas.config.listeners import Listener

if TYPE_CHECKING:
    import ssl

    from barnabas.broker.network.tls_transport import Handshakes
    from barnabas.broker.security.principals import Naming, PrincipalBuilder, TlsPeer
    from barnabas.broker.security.sasl.listener import SaslListener
    from barnabas.broker.security.tls_listener import TlsListener
    from barnabas.security.mapping_rules import PrincipalMapper

logger = logging.getLogger("barnabas.security")

PLAINTEXT: Final = "PLAINTEXT"
SSL: Final = "SSL"
SASL_PREFIX: Final = "SASL_"


def has_tls(security_protocol: str) -> bool:
    """Whether it is SSL or SASL_SSL."""
    return security_protocol.endswith(SSL)


def has_logins(security_protocol: str) -> bool:
    """Whether it is SASL_PLAINTEXT or SASL_SSL."""
    return security_protocol.startswith(SASL_PREFIX)


class ListenerTls:
    """TLS of one listener: its stores, whom a certificate names, and what its handshakes need."""

    __slots__ = ("failures", "handshakes", "mapper", "stores")

    def __init__(
        self,
        stores: TlsListener,
        mapper: PrincipalMapper,
        handshakes: Callable[[], Handshakes],
        failures: FailureLog,
    ) -> None:
        """`handshakes` returns what the handshakes of all listeners share; it is called with the first connection."""
        self.stores = stores
        self.mapper = mapper
        self.handshakes = handshakes
        self.failures = failures

    def principal_of(self, certificate: bytes | None) -> KafkaPrincipal:
        """Whom a client's certificate names; ANONYMOUS without one. Raises ValueError where no rule matches."""
        if certificate is None:
            return ANONYMOUS
        from barnabas.security.certificates import subject_name

        return KafkaPrincipal(self.mapper.name_of(subject_name(certificate)))


class ListenerSecurity:
    """The security protocol of a listener, and its parts."""

    __slots__ = ("builder", "sasl", "security_protocol", "tls")

    def __init__(
        self,
        security_protocol: str,
        sasl: SaslListener | None = None,
        tls: ListenerTls | None = None,
        builder: PrincipalBuilder | None = None,
    ) -> None:
        """`builder` is the class of the operator's own that names the clients; None for Kafka's rules."""
        assert has_logins(security_protocol) is (sasl is not None), security_protocol
        assert has_tls(security_protocol) is (tls is not None), security_protocol
        self.security_protocol = security_protocol
        self.sasl = sasl
        self.tls = tls
        self.builder = builder

    @property
    def initial_principal(self) -> KafkaPrincipal | None:
        """Whose requests those of a new connection are; None: nobody's until it has authenticated."""
        return ANONYMOUS if self.security_protocol == PLAINTEXT and self.builder is None else None

    def begin_naming(self, info: ConnectionInfo) -> bool:
        """Has the operator's own class name the client, now or after it has authenticated.

        False where it lets the client of a PLAINTEXT connection not in.
        """
        if self.builder is None:
            return True
        from barnabas.broker.security.principals import Naming, PrincipalError

        naming = info.naming = Naming(self.builder, info)
        if self.security_protocol == PLAINTEXT:
            try:
                info.principal = naming.principal()
            except PrincipalError as error:
                logger.warning(
                    "listener %s: %s:%d is not let in: %s",
                    info.listener_name,
                    info.client_host,
                    info.client_port,
                    sanitized(str(error)),
                )
                return False
        return True

    def transport(
        self,
        loop: asyncio.AbstractEventLoop,
        accepted: socket.socket,
        info: ConnectionInfo,
        probe: ListenerProbe,
    ) -> Transport:
        """The stream of a connection that was accepted."""
        tls = self.tls
        if tls is None:
            return SocketTransport(loop, accepted)
        from barnabas.broker.network.tls_transport import TlsTransport

        guard = _TlsGuard(tls, info, probe, names_client=self.sasl is None)
        return TlsTransport(loop, accepted, guard, tls.handshakes())


class _TlsGuard:
    """What one connection over TLS asks and reports."""

    __slots__ = ("_info", "_names_client", "_probe", "_suite", "_tls")

    def __init__(
        self, tls: ListenerTls, info: ConnectionInfo, probe: ListenerProbe, *, names_client: bool
    ) -> None:
        """`names_client`: whether the certificate says who the client is. Else it logs in afterwards."""
        self._tls = tls
        self._info = info
        self._probe = probe
        self._names_client = names_client
        self._suite = ("", "")

    def context(self) -> ssl.SSLContext:
        """The context that holds now."""
        return self._tls.stores.context

    def admit(self, tls: ssl.SSLObject) -> None:
        """The handshake is complete, and with it the authentication where there is no login."""
        from barnabas.security.cipher_suites import iana_name

        info, probe = self._info, self._probe
        cipher = tls.cipher()
        suite = (iana_name(cipher[0]) if cipher else "", tls.version() or "")
        certificate = tls.getpeercert(binary_form=True)
        naming: Naming | None = info.naming
        if naming is not None:
            naming.tls = _tls_peer(certificate, suite)
        if self._names_client:
            info.principal = self._tls.principal_of(certificate) if naming is None else naming.principal()
            probe.successful_authentications += 1
            probe.successful_authentications_no_reauth += 1
            logger.debug(
                "listener %s: %s:%d is %s",
                info.listener_name,
                info.client_host,
                info.client_port,
                sanitized(str(info.principal)),
            )
        self._suite = suite
        counts = probe.connections_by_cipher
        counts[self._suite] = counts.get(self._suite, 0) + 1

    def rejected(self, reason: str) -> None:
        """The handshake failed."""
        self._probe.failed_authentications += 1
        self._tls.failures.tls_failed(self._info, reason)

    def ended(self) -> None:
        """The connection is closed."""
        counts = self._probe.connections_by_cipher
        counts[self._suite] -= 1
        if not counts[self._suite]:
            del counts[self._suite]


def _tls_peer(certificate: bytes | None, suite: tuple[str, str]) -> TlsPeer:
    from barnabas.broker.security.principals import TlsPeer

    return TlsPeer(certificate, suite[1], suite[0])


def without_security(listener: Listener) -> ListenerSecurity:
    """That of a broker whose listeners are all PLAINTEXT."""
    assert listener.security_protocol == PLAINTEXT, listener
    return ListenerSecurity(PLAINTEXT)
