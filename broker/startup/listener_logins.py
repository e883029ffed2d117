"""ListenerLogins: the logins of listeners from the configuration, and what is behind them.

That is the credentials of the metadata, and the keys of identity providers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.startup.scram_secret import FILE_NAME, scram_secret
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError

if TYPE_CHECKING:
    import asyncio
    import ssl

    from barnabas.broker.security.sasl.jwks import ProviderKeys
    from barnabas.broker.security.sasl.listener import SaslListener
    from barnabas.broker.security.sasl.oauthbearer_settings import FindKeys, OAuthBearerSurroundings, Provider
    from barnabas.broker.security.sasl.scram import ScramCredentials, ScramRecords, TokenCredentials
    from barnabas.broker.startup.provider_keys import BrokerProviders
    from barnabas.broker.waiting.blocking import BlockingRunner


class ListenerLogins:
    """Those of one broker. What logins need is imported with the first listener that has any."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        runner: BlockingRunner,
        environ: Mapping[str, str] | None = None,
        find_keys: FindKeys | None = None,
    ) -> None:
        """`runner` waits for identity providers; `environ` are the environment variables, None for those of the
        process. `find_keys` finds the keys of providers in place of their fetch.
        """
        self._loop = loop
        self._runner = runner
        self._environ = environ
        self._find_keys = find_keys or self._fetched_keys
        self._is_started = False
        self._providers: BrokerProviders | None = None
        self._scram: ScramCredentials | None = None
        self._metadata: tuple[Callable[[], ScramRecords], str, TokenCredentials | None] | None = None

    @property
    def scram(self) -> ScramCredentials:
        """The credentials that SCRAM looks up. Raises InvalidConfigError."""
        from barnabas.broker.security.sasl.scram import ScramCredentials

        if self._scram is None:
            scram = ScramCredentials()
            self._attach(scram)
            self._scram = scram
        return self._scram

    def attach(
        self,
        records: Callable[[], ScramRecords],
        metadata_dir: str,
        tokens: TokenCredentials | None = None,
    ) -> None:
        """The metadata are read: `records` returns the newest credentials, `tokens` are the delegation tokens, and the
        secret lies in `metadata_dir`.

        Raises InvalidConfigError.
        """
        self._metadata = records, metadata_dir, tokens
        if self._scram is not None:  # a broker without logins has no secret
            self._attach(self._scram)

    def _attach(self, scram: ScramCredentials) -> None:
        if self._metadata is None:
            return
        records, metadata_dir, tokens = self._metadata
        try:
            secret = scram_secret(metadata_dir)
        except OSError as error:
            reason = f"cannot be read or made in {error.filename}: {error.strerror}"
            raise InvalidConfigError([ConfigError(FILE_NAME, None, reason)]) from error
        scram.attach(records, secret, tokens)

    def make(self, config: BrokerConfig, listener: str) -> SaslListener:
        """The logins of a listener; the static JAAS file is read for each. Raises InvalidConfigError."""
        from barnabas.broker.security.sasl.listener import sasl_listener
        from barnabas.broker.startup.jaas_file import read_jaas_file

        try:
            file = read_jaas_file(config, self._environ)
        except ConfigError as error:
            raise InvalidConfigError([error]) from None
        return sasl_listener(config, listener, self.scram, file, self._oauthbearer)

    # ---- identity providers

    @property
    def _oauthbearer(self) -> OAuthBearerSurroundings:
        from barnabas.broker.security.sasl.oauthbearer_settings import OAuthBearerSurroundings
        from barnabas.broker.startup.jaas_file import JAVA_OPTIONS

        options = (os.environ if self._environ is None else self._environ).get(JAVA_OPTIONS, "")
        return OAuthBearerSurroundings(self._find_keys, lambda: time.time_ns() // 1_000_000, options)

    def _fetched_keys(
        self, provider: Provider, make_context: Callable[[], ssl.SSLContext] | None
    ) -> ProviderKeys:
        """Imported with the first listener that needs an identity provider."""
        if self._providers is None:
            from barnabas.broker.startup.provider_keys import BrokerProviders

            self._providers = BrokerProviders(self._loop, self._runner)
            if self._is_started:
                self._providers.start()
        return self._providers.find(provider, make_context)

    def start(self) -> None:
        """Clients may come: keys of identity providers are kept fresh."""
        self._is_started = True
        if self._providers is not None:
            self._providers.start()

    def close(self) -> None:
        """Nothing is fetched any more."""
        if self._providers is not None:
            self._providers.close()
