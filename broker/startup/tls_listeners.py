"""TlsListeners: TLS of listeners from the configuration, and its certificates as they are replaced while clients come.

Source: org.apache.kafka.common.security.ssl.SslFactory, SslChannelBuilder.validateReconfiguration.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from barnabas.broker.network.failure_log import FailureLog
from barnabas.broker.network.listener_security import ListenerTls
from barnabas.broker.network.tls_transport import Handshakes
from barnabas.broker.security.tls_listener import Loaded, ReplacementRules, TlsListener
from barnabas.broker.startup.setting_errors import setting_error
from barnabas.broker.waiting.blocking import BlockingRunner, ThreadRunner
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import tls as tls_keys
from barnabas.config.catalogue.barnabas import BARNABAS_AUTHENTICATION_TIMEOUT_MS, BARNABAS_HANDSHAKE_THREADS
from barnabas.config.dynamic import STORE_KEYS
from barnabas.config.listeners import Listener
from barnabas.config.tls import tls_texts
from barnabas.security.errors import SettingError
from barnabas.security.mapping_rules import PrincipalMapper
from barnabas.security.settings import TlsSettings

if TYPE_CHECKING:
    from barnabas.config.keys import ConfigError

_REFUSED_UPDATE = "Validation of dynamic config update of SSLFactory failed: "


class TlsListeners:
    """Those of one broker. Lives on the event loop; loaded by a broker with a listener of TLS alone."""

    def __init__(self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, runner: BlockingRunner) -> None:
        """`runner` reads files of stores once clients may come."""
        self._config = config
        self._loop = loop
        self._runner = runner
        self._failures = FailureLog(loop.time)
        self._pool: ThreadRunner | None = None
        self._shared: Handshakes | None = None
        self.is_started = False
        """Clients may come: certificates are replaced by the rules for open listeners."""

    def make(self, config: BrokerConfig, listener: Listener) -> ListenerTls:
        """Reads the stores of a listener. Raises ConfigError for what cannot be used."""
        name = listener.name
        settings = TlsSettings(tls_texts(config, name, listener.security_protocol))
        try:
            mapper = PrincipalMapper(config.listener_value(name, tls_keys.SSL_PRINCIPAL_MAPPING_RULES))
            stores = TlsListener(name, settings, _rules(config, name))
        except SettingError as error:
            raise setting_error(config, name, error) from None
        return ListenerTls(stores, mapper, self._handshakes, self._failures)

    def _handshakes(self) -> Handshakes:
        """Made with the first connection over TLS."""
        if self._shared is None:
            self._pool = ThreadRunner(self._loop, self._config[BARNABAS_HANDSHAKE_THREADS])
            timeout_ms = self._config[BARNABAS_AUTHENTICATION_TIMEOUT_MS]
            self._shared = Handshakes(self._pool, DeadlineQueue(self._loop), timeout_ms)
        return self._shared

    def close(self) -> None:
        """Waits for the steps of handshakes that run; no more begin."""
        if self._shared is not None:
            self._shared.deadlines.clear()
        if self._pool is not None:
            self._pool.close()

    # ---- changes

    def check(self, candidate: BrokerConfig, listener: Listener, stores: TlsListener) -> None:
        """Raises ConfigError unless the stores that a changed configuration names may take the place of those in use.

        Reads them: kafka-configs is told at once, and with --validate-only, too.
        """
        settings = self._changed_settings(candidate, listener, stores)
        if not stores.has_changed(settings):
            return
        try:
            stores.check(stores.load(settings), _rules(candidate, listener.name))
        except SettingError as error:
            raise self._refused_update(candidate, listener, error) from None

    def _refused_update(
        self, candidate: BrokerConfig, listener: Listener, error: SettingError
    ) -> ConfigError:
        return setting_error(candidate, listener.name, error, _REFUSED_UPDATE + (error.phrase or str(error)))

    def reload(self, listener: Listener, stores: TlsListener) -> None:
        """Has the stores read again if they have changed. Before the start, where the settings in the metadata come on
        top of those of the file, it does so at once.
        """
        settings = self._changed_settings(self._config, listener, stores)
        if not stores.has_changed(settings):
            return
        results: list[Loaded | SettingError] = []

        def load() -> None:
            try:
                results.append(stores.load(settings))
            except SettingError as wrong:
                results.append(wrong)

        def done(error: BaseException | None) -> None:
            if error is not None:
                raise error
            self._replace(stores, settings, results[0])

        if self.is_started:
            self._runner.submit(load, done)
        else:
            load()
            done(None)

    def _replace(self, stores: TlsListener, settings: TlsSettings, loaded: Loaded | SettingError) -> None:
        try:
            if isinstance(loaded, SettingError):
                raise loaded
            if self.is_started:
                stores.check(loaded, _rules(self._config, stores.name))
        except SettingError as wrong:
            stores.failed(settings, wrong)
        else:
            stores.adopt(loaded)

    def _changed_settings(self, config: BrokerConfig, listener: Listener, stores: TlsListener) -> TlsSettings:
        """The settings of a listener in a changed configuration; of an open one only those of its stores change."""
        new = TlsSettings(tls_texts(config, listener.name, listener.security_protocol))
        if not self.is_started:
            return new
        kept = {key: text for key, text in stores.settings.texts.items() if key not in STORE_KEYS}
        return TlsSettings({**kept, **{key: text for key, text in new.texts.items() if key in STORE_KEYS}})


def _rules(config: BrokerConfig, listener: str) -> ReplacementRules:
    return ReplacementRules(
        config.listener_value(listener, tls_keys.SSL_ALLOW_DN_CHANGES),
        config.listener_value(listener, tls_keys.SSL_ALLOW_SAN_CHANGES),
        listener == config.inter_broker_listener,
    )
