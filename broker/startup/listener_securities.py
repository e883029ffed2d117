"""ListenerSecurities: how each listener that opens is secured, and what of that changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.network.listener_security import PLAINTEXT, ListenerSecurity, has_logins, has_tls
from barnabas.broker.security.principals import principal_builder
from barnabas.broker.startup.listener_logins import ListenerLogins
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import TimerHandle
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_TLS_RELOAD_INTERVAL_MS
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import Listener
from barnabas.config.tls import refuse_unknown_classes

if TYPE_CHECKING:
    from barnabas.broker.security.sasl.oauthbearer_settings import FindKeys
    from barnabas.broker.security.sasl.scram import ScramRecords, TokenCredentials
    from barnabas.broker.startup.tls_listeners import TlsListeners


class ListenerSecurities:
    """Those of all listeners of a broker. Lives on the event loop.

    Made with the server, so that a configuration that asks for protection that there is not refuses the start.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        runner: BlockingRunner,
        environ: Mapping[str, str] | None = None,
        *,
        authenticating: BlockingRunner | None = None,
        find_keys: FindKeys | None = None,
    ) -> None:
        """`runner` reads files of stores; `authenticating`, or the same, waits for identity providers. `find_keys`
        finds their keys in place of a fetch.

        Raises InvalidConfigError, with the errors of all listeners.
        """
        self._config = config
        self._loop = loop
        self._runner = runner
        self._by_name: dict[str, ListenerSecurity] = {}
        self._logins = ListenerLogins(loop, authenticating or runner, environ, find_keys)
        self._tls_listeners: TlsListeners | None = None
        self._timer: TimerHandle | None = None
        self._is_started = False
        errors: dict[str, ConfigError] = {}  # by their text: some are of a setting of all listeners
        for listener in config.listeners:
            try:
                self(listener)
            except InvalidConfigError as error:
                errors |= {str(each): each for each in error.errors}
        if errors:
            raise InvalidConfigError(list(errors.values()))
        config.reconfiguration_checks.append(self.check)

    @property
    def by_name(self) -> Mapping[str, ListenerSecurity]:
        """Those of the listeners that have any, by the listeners' names."""
        return self._by_name

    def __call__(self, listener: Listener) -> ListenerSecurity:
        """That of one listener, made with the first call. Raises InvalidConfigError.

        A call before the start takes over what settings in the metadata have changed of its logins. Raises
        SettingsWaitError for one that is new after the start, and whose identity provider has to be asked first.
        """
        security = self._by_name.get(listener.name)
        if security is None:
            security = self._make(self._config, listener)
            if security.security_protocol != PLAINTEXT or security.builder is not None:
                self._by_name[listener.name] = security
        elif security.sasl is not None and not self._is_started:
            security.sasl = self._logins.make(self._config, listener.name)
        return security

    def _make(self, config: BrokerConfig, listener: Listener) -> ListenerSecurity:
        protocol = listener.security_protocol
        errors = list(refuse_unknown_classes(config, listener.name))
        sasl = tls = builder = None
        try:
            builder = principal_builder(config, listener.name)
        except ConfigError as error:
            errors.append(error)
        if has_logins(protocol):
            try:
                sasl = self._logins.make(config, listener.name)
            except InvalidConfigError as error:
                errors += error.errors
        if has_tls(protocol):
            try:
                tls = self._tls.make(config, listener)
            except ConfigError as error:
                errors.append(error)
        if errors:
            raise InvalidConfigError(errors)
        return ListenerSecurity(protocol, sasl, tls, builder)

    @property
    def _tls(self) -> TlsListeners:
        """Imported and made with the first listener of TLS."""
        if self._tls_listeners is None:
            from barnabas.broker.startup.tls_listeners import TlsListeners

            self._tls_listeners = TlsListeners(self._config, self._loop, self._runner)
            self._tls_listeners.is_started = self._is_started
        return self._tls_listeners

    # ---- life

    def attach(
        self,
        records: Callable[[], ScramRecords],
        metadata_dir: str,
        tokens: TokenCredentials | None = None,
    ) -> None:
        """The metadata are read: see ListenerLogins.attach. Raises InvalidConfigError."""
        self._logins.attach(records, metadata_dir, tokens)

    def start(self) -> None:
        """Clients may come now: from here on a listener that is open keeps its settings, but for its stores."""
        self._is_started = True
        if self._tls_listeners is not None:
            self._tls_listeners.is_started = True
        self._logins.start()
        self._look_later()

    def close(self) -> None:
        """Nothing is read or begun any more. Waits for the steps of handshakes that run."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._logins.close()
        if self._tls_listeners is not None:
            self._tls_listeners.close()

    def _look_later(self) -> None:
        interval_ms = self._config[BARNABAS_TLS_RELOAD_INTERVAL_MS]
        if interval_ms > 0 and any(security.tls for security in self._by_name.values()):
            self._timer = self._loop.call_at(self._loop.time() + interval_ms / 1000, self._look)

    def _look(self) -> None:
        self._timer = None
        self.reconfigure()
        self._look_later()

    # ---- changes

    def reconfigure(self) -> None:
        """Has changed stores read: the configuration has changed, or it is time to look at the files."""
        open_now = {listener.name: listener for listener in self._config.listeners}
        for name in [name for name in self._by_name if name not in open_now]:
            del self._by_name[name]  # its connections keep what they have
        for name, security in self._by_name.items():
            if security.tls is not None:
                self._tls.reload(open_now[name], security.tls.stores)

    def check(self, candidate: BrokerConfig) -> None:
        """Raises ConfigError unless this broker can follow a changed configuration: the stores that it names for open
        listeners, and all that protects those that it adds. Raises SettingsWaitError.
        """
        for listener in candidate.listeners:
            security = self._by_name.get(listener.name)
            if security is not None:
                if security.tls is not None:
                    self._tls.check(candidate, listener, security.tls.stores)
                continue
            try:
                self._make(candidate, listener)
            except InvalidConfigError as error:
                raise error.errors[0] from None
