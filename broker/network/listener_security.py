"""ListenerSecurity: what the connections of one listener go through before their first request.

A listener without protection has none, and costs nothing: SocketServer asks for it once, when a listener is opened.
`ListenerSecurities` makes them from the configuration, and follows its changes and those of the files of certificates.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.request import ANONYMOUS, ConnectionInfo, KafkaPrincipal
from barnabas.broker.waiting.blocking import BlockingRunner, ThreadRunner
from barnabas.broker.waiting.timer import DeadlineQueue, TimerHandle
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import tls as tls_keys
from barnabas.config.catalogue.barnabas import (
    BARNABAS_AUTHENTICATION_TIMEOUT_MS,
    BARNABAS_HANDSHAKE_THREADS,
    BARNABAS_TLS_RELOAD_INTERVAL_MS,
)
from barnabas.config.dynamic import STORE_KEYS
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import Listener
from barnabas.config.tls import listener_setting_name, refuse_unknown_classes, tls_texts

if TYPE_CHECKING:
    import ssl

    from barnabas.broker.network.tls_transport import Handshakes
    from barnabas.broker.network.transport import Transport
    from barnabas.broker.security.tls_listener import Loaded, ReplacementRules, TlsListener
    from barnabas.security.errors import SettingError
    from barnabas.security.mapping_rules import PrincipalMapper
    from barnabas.security.settings import TlsSettings

logger = logging.getLogger("barnabas.security")

PLAINTEXT: Final = "PLAINTEXT"
_SSL: Final = "SSL"


class SecurityProbe:
    """What happens to the connections of one listener before their first request."""

    def __init__(self) -> None:
        self.successful_authentications = 0
        self.failed_authentications = 0
        self.by_cipher: dict[tuple[str, str], int] = {}
        """Open connections by cipher suite and version of TLS."""


class ListenerSecurity:
    """One listener's. Its connections have no principal until they are let in."""

    def __init__(
        self,
        name: str,
        protocol: str,
        *,
        tls: TlsListener | None,
        mapper: PrincipalMapper,
        handshakes: Callable[[], Handshakes],
        complaints: RateLimit,
    ) -> None:
        self.name = name
        self.protocol = protocol
        self.tls = tls
        self.probe = SecurityProbe()
        self._mapper = mapper
        self._handshakes = handshakes
        self._complaints = complaints

    def transport(
        self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, info: ConnectionInfo
    ) -> Transport:
        """The stream of a connection that was accepted."""
        if self.tls is None:
            from barnabas.broker.network.transport import SocketTransport

            return SocketTransport(loop, accepted)
        from barnabas.broker.network.tls_transport import TlsTransport

        return TlsTransport(loop, accepted, _TlsGuard(self, self.tls, info), self._handshakes())

    # ---- what happens to its connections

    def principal_of(self, certificate: bytes | None) -> KafkaPrincipal:
        """Whom a client's certificate names; ANONYMOUS without one. Raises ValueError where no rule matches."""
        if certificate is None:
            return ANONYMOUS
        from barnabas.security.certificates import subject_name

        return KafkaPrincipal(self._mapper.name_of(subject_name(certificate)))

    def rejected(self, info: ConnectionInfo, reason: str) -> None:
        """A connection was not let in."""
        self.probe.failed_authentications += 1
        left_out = self._complaints.admit(("authentication", info.client_host))
        if left_out is None:
            return
        more = f" (and {left_out} times more since the last such line)" if left_out else ""
        logger.info(
            "listener %s rejects %s:%d: %s%s", self.name, info.client_host, info.client_port, reason, more
        )


class _TlsGuard:
    """What one connection over TLS asks and reports."""

    __slots__ = ("_info", "_security", "_suite", "_tls")

    def __init__(self, security: ListenerSecurity, tls: TlsListener, info: ConnectionInfo) -> None:
        self._security = security
        self._tls = tls
        self._info = info
        self._suite = ("", "")

    def context(self) -> ssl.SSLContext:
        """The context that holds now."""
        return self._tls.context

    def admit(self, tls: ssl.SSLSocket) -> None:
        """Gives the connection its principal, where TLS is all that the listener asks for."""
        from barnabas.security.cipher_suites import iana_name

        security, info = self._security, self._info
        if security.protocol == _SSL:
            info.principal = security.principal_of(tls.getpeercert(binary_form=True))
            security.probe.successful_authentications += 1
            logger.debug(
                "listener %s: %s:%d is %s", security.name, info.client_host, info.client_port, info.principal
            )
        cipher = tls.cipher()
        self._suite = (iana_name(cipher[0]) if cipher else "", tls.version() or "")
        counts = security.probe.by_cipher
        counts[self._suite] = counts.get(self._suite, 0) + 1

    def rejected(self, reason: str) -> None:
        """The handshake failed."""
        self._security.rejected(self._info, reason)

    def ended(self) -> None:
        """The connection is closed."""
        counts = self._security.probe.by_cipher
        counts[self._suite] -= 1
        if not counts[self._suite]:
            del counts[self._suite]


class ListenerSecurities:
    """Those of all listeners of a broker that have one. Lives on the event loop."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, runner: BlockingRunner) -> None:
        """`runner` reads files of stores. Raises InvalidConfigError, for a configuration that asks for protection that
        there is not.
        """
        self._config = config
        self._loop = loop
        self._runner = runner
        self._by_name: dict[str, ListenerSecurity] = {}
        self._complaints = RateLimit()
        self._pool: ThreadRunner | None = None
        self._shared: Handshakes | None = None
        self._timer: TimerHandle | None = None
        self._is_started = False
        errors: list[ConfigError] = list(refuse_unknown_classes(config))
        for listener in config.listeners:
            try:
                self.of(listener)
            except ConfigError as error:
                errors.append(error)
        if errors:
            raise InvalidConfigError(errors)
        config.reconfiguration_checks.append(self.check)

    @property
    def by_name(self) -> Mapping[str, ListenerSecurity]:
        """By the listeners' names."""
        return self._by_name

    def of(self, listener: Listener) -> ListenerSecurity | None:
        """That of one listener, made with the first call; None for one without protection. Raises ConfigError."""
        if listener.security_protocol == PLAINTEXT:
            return None
        security = self._by_name.get(listener.name)
        if security is None:
            security = self._by_name[listener.name] = self._make(self._config, listener)
        return security

    def _make(self, config: BrokerConfig, listener: Listener) -> ListenerSecurity:
        from barnabas.security.errors import SettingError
        from barnabas.security.mapping_rules import PrincipalMapper

        try:
            return ListenerSecurity(
                listener.name,
                listener.security_protocol,
                tls=_make_tls(config, listener) if listener.security_protocol.endswith(_SSL) else None,
                mapper=PrincipalMapper(
                    config.listener_value(listener.name, tls_keys.SSL_PRINCIPAL_MAPPING_RULES)
                ),
                handshakes=self._handshakes,
                complaints=self._complaints,
            )
        except SettingError as error:
            raise _config_error(config, listener.name, error) from None

    def _handshakes(self) -> Handshakes:
        """Made with the first connection over TLS."""
        if self._shared is None:
            from barnabas.broker.network.tls_transport import Handshakes

            self._pool = ThreadRunner(self._loop, self._config[BARNABAS_HANDSHAKE_THREADS])
            timeout_ms = self._config[BARNABAS_AUTHENTICATION_TIMEOUT_MS]
            self._shared = Handshakes(self._pool, DeadlineQueue(self._loop), timeout_ms)
        return self._shared

    # ---- changes

    def start(self) -> None:
        """Clients may come now: from here on certificates are replaced by the rules for open listeners."""
        self._is_started = True
        self._look_later()

    def close(self) -> None:
        """Nothing is read or begun any more. Waits for the steps of handshakes that run."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._shared is not None:
            self._shared.deadlines.clear()
        if self._pool is not None:
            self._pool.close()

    def _look_later(self) -> None:
        interval_ms = self._config[BARNABAS_TLS_RELOAD_INTERVAL_MS]
        if interval_ms > 0 and any(security.tls for security in self._by_name.values()):
            self._timer = self._loop.call_at(self._loop.time() + interval_ms / 1000, self._look)

    def _look(self) -> None:
        self.reconfigure()
        self._look_later()

    def reconfigure(self) -> None:
        """Has changed stores read: the configuration has changed, or it is time to look at the files.

        Before the start, where the settings in the metadata come on top of those of the file, it does so at once.
        """
        open_now = {listener.name for listener in self._config.listeners}
        for name in [name for name in self._by_name if name not in open_now]:
            del self._by_name[name]  # its connections keep what they have
        for security in self._by_name.values():
            if security.tls is not None:
                self._reload(security.tls, security.protocol)

    def _changed_settings(self, tls: TlsListener, config: BrokerConfig, protocol: str) -> TlsSettings:
        """The settings of a listener in a changed configuration; of an open one only those of its stores change."""
        new = _settings(config, tls.name, protocol)
        if not self._is_started:
            return new
        from barnabas.security.settings import TlsSettings

        kept = {key: text for key, text in tls.settings.texts.items() if key not in STORE_KEYS}
        return TlsSettings({**kept, **{key: text for key, text in new.texts.items() if key in STORE_KEYS}})

    def _reload(self, tls: TlsListener, protocol: str) -> None:
        settings = self._changed_settings(tls, self._config, protocol)
        if not tls.has_changed(settings):
            return
        results: list[Loaded | SettingError] = []

        def load() -> None:
            from barnabas.security.errors import SettingError

            try:
                results.append(tls.load(settings))
            except SettingError as wrong:
                results.append(wrong)

        def done(error: BaseException | None) -> None:
            if error is not None:
                raise error
            self._replace(tls, settings, results[0])

        if self._is_started:
            self._runner.submit(load, done)
        else:
            load()
            done(None)

    def _replace(self, tls: TlsListener, settings: TlsSettings, loaded: Loaded | SettingError) -> None:
        from barnabas.security.errors import SettingError

        try:
            if isinstance(loaded, SettingError):
                raise loaded
            if self._is_started:
                tls.check(loaded, _rules(self._config, tls.name))
        except SettingError as wrong:
            tls.failed(settings, wrong)
        else:
            tls.adopt(loaded)

    def check(self, candidate: BrokerConfig) -> None:
        """Raises ConfigError unless the stores that a changed configuration names may take the place of those in use,
        and those of listeners that it adds can be used.

        Reads them: kafka-configs is told at once, and with --validate-only, too.
        """
        from barnabas.security.errors import SettingError

        for listener in candidate.listeners:
            security = self._by_name.get(listener.name)
            if security is None:
                if listener.security_protocol != PLAINTEXT:
                    self._make(candidate, listener)
                continue
            tls = security.tls
            if tls is None:
                continue
            settings = self._changed_settings(tls, candidate, security.protocol)
            if not tls.has_changed(settings):
                continue
            try:
                tls.check(tls.load(settings), _rules(candidate, security.name))
            except SettingError as error:
                raise _config_error(
                    candidate,
                    security.name,
                    error,
                    "Validation of dynamic config update of SSLFactory failed: ",
                ) from None


def _make_tls(config: BrokerConfig, listener: Listener) -> TlsListener:
    from barnabas.broker.security.tls_listener import TlsListener

    return TlsListener(
        listener.name,
        _settings(config, listener.name, listener.security_protocol),
        _rules(config, listener.name),
    )


def _settings(config: BrokerConfig, listener: str, protocol: str) -> TlsSettings:
    from barnabas.security.settings import TlsSettings

    return TlsSettings(tls_texts(config, listener, protocol))


def _rules(config: BrokerConfig, listener: str) -> ReplacementRules:
    from barnabas.broker.security.tls_listener import ReplacementRules

    return ReplacementRules(
        config.listener_value(listener, tls_keys.SSL_ALLOW_DN_CHANGES),
        config.listener_value(listener, tls_keys.SSL_ALLOW_SAN_CHANGES),
        listener == config.inter_broker_listener,
    )


def _config_error(
    config: BrokerConfig, listener: str, error: SettingError, phrase: str | None = None
) -> ConfigError:
    """The error about the setting as the configuration has it: with the listener's prefix where it has that."""
    name, place = listener_setting_name(config, listener, error.key)
    said = None if phrase is None else phrase + (error.phrase or str(error))
    return ConfigError(name, error.value, error.requirement, place, phrase=said)
