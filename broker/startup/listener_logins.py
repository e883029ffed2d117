"""ListenerLogins: the logins of listeners from the configuration, and the credentials of the metadata behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.startup.scram_secret import FILE_NAME, scram_secret
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError

if TYPE_CHECKING:
    from barnabas.broker.security.sasl.listener import SaslListener
    from barnabas.broker.security.sasl.scram import ScramCredentials, ScramRecords, TokenCredentials


class ListenerLogins:
    """Those of one broker. What logins need is imported with the first listener that has any."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """`environ` are the environment variables, None for those of the process."""
        self._environ = environ
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
        return sasl_listener(config, listener, self.scram, file)
