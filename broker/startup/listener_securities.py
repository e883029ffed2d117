"""ListenerSecurities: how each listener that opens is secured, and what a start says about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from barnabas.broker.network.listener_security import SASL_PREFIX, ListenerSecurity
from barnabas.broker.startup.scram_secret import FILE_NAME, scram_secret
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_JAAS_CONFIG_FILE
from barnabas.config.catalogue.server import AUTHORIZER_CLASS_NAME
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import Listener

if TYPE_CHECKING:
    from barnabas.broker.security.sasl.listener import JaasFile
    from barnabas.broker.security.sasl.scram import ScramCredentials, ScramRecords

JAVA_OPTIONS = "KAFKA_OPTS"
"""The variable by which users of Apache Kafka's scripts and image name the static JAAS file."""


class ListenerSecurities:
    """Makes the ListenerSecurity of a listener. What logins need is imported with the first listener that has any."""

    def __init__(self, config: BrokerConfig, environ: Mapping[str, str] | None = None) -> None:
        self._config = config
        self._environ = os.environ if environ is None else environ
        self._scram: ScramCredentials | None = None
        self._metadata: tuple[Callable[[], ScramRecords], str] | None = None

    @property
    def scram(self) -> ScramCredentials:
        """The credentials that SCRAM looks up."""
        from barnabas.broker.security.sasl.scram import ScramCredentials

        if self._scram is None:
            scram = ScramCredentials()
            self._attach(scram)
            self._scram = scram
        return self._scram

    def attach(self, records: Callable[[], ScramRecords], metadata_dir: str) -> None:
        """The metadata are read: `records` returns the newest credentials, and the secret lies in `metadata_dir`.

        Raises OSError.
        """
        self._metadata = records, metadata_dir
        if self._scram is not None:  # a broker without logins has no secret
            self._attach(self._scram)

    def _attach(self, scram: ScramCredentials) -> None:
        if self._metadata is not None:
            records, metadata_dir = self._metadata
            scram.attach(records, scram_secret(metadata_dir))

    def __call__(self, listener: Listener) -> ListenerSecurity:
        """Raises InvalidConfigError."""
        self._check_principal_builder(listener)
        protocol = listener.security_protocol
        if not protocol.startswith(SASL_PREFIX):
            return ListenerSecurity(protocol)
        from barnabas.broker.security.sasl.listener import sasl_listener

        try:
            scram = self.scram
        except OSError as error:
            reason = f"cannot be read or made in {error.filename}: {error.strerror}"
            raise InvalidConfigError([ConfigError(FILE_NAME, None, reason)]) from error
        return ListenerSecurity(
            protocol, sasl_listener(self._config, listener.name, scram, self._jaas_file())
        )

    def notices(self) -> Iterator[str]:
        """What an operator should know of the listeners that the broker starts with, a line each."""
        secured = [each for each in self._config.listeners if each.security_protocol.startswith(SASL_PREFIX)]
        for listener in secured:
            is_open = listener.security_protocol == "SASL_PLAINTEXT" and not is_loopback(listener.host)
            if is_open and "PLAIN" in self._mechanisms(listener):
                yield (
                    f"listener {listener.name} takes passwords (SASL mechanism PLAIN) over connections that are "
                    "not encrypted: whoever is on the way can read them"
                )
        if secured and not self._config[AUTHORIZER_CLASS_NAME]:
            names = ", ".join(listener.name for listener in secured)
            yield (
                f"clients of listener {names} have to log in, and may do everything then: "
                f"{AUTHORIZER_CLASS_NAME.name} names no authorizer"
            )

    def _mechanisms(self, listener: Listener) -> tuple[str, ...]:
        from barnabas.config.catalogue.sasl import SASL_ENABLED_MECHANISMS

        return self._config.mechanism_value(listener.name, None, SASL_ENABLED_MECHANISMS)

    def _check_principal_builder(self, listener: Listener) -> None:
        from barnabas.config.catalogue.tls import PRINCIPAL_BUILDER_CLASS

        if self._config.listener_setting(listener.name, PRINCIPAL_BUILDER_CLASS) is not None:
            from barnabas.broker.security.sasl.listener import check_principal_builder

            check_principal_builder(self._config, listener.name)

    def _jaas_file(self) -> JaasFile | None:
        """The static file, read for each listener. Raises InvalidConfigError."""
        from barnabas.broker.security.jaas import JaasError, file_in_java_options, parse_file
        from barnabas.broker.security.sasl.listener import JaasFile

        path, place = self._config[BARNABAS_JAAS_CONFIG_FILE], self._config.place(BARNABAS_JAAS_CONFIG_FILE)
        if not path:
            path, place = (
                file_in_java_options(self._environ.get(JAVA_OPTIONS, "")),
                f"environment variable {JAVA_OPTIONS}",
            )
        if not path:
            return None
        try:
            with open(path, encoding="utf-8") as file:
                return JaasFile(parse_file(file.read()), path)
        except (OSError, UnicodeDecodeError, JaasError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            requirement = f"must be a JAAS file that can be read: {reason}"
            raise InvalidConfigError(
                [ConfigError(BARNABAS_JAAS_CONFIG_FILE.name, path, requirement, place)]
            ) from None


def is_loopback(host: str | None) -> bool:
    """Whether a listener's host is reached from this machine alone; None: every interface."""
    if host == "localhost":
        return True
    import ipaddress  # not for a broker without logins

    try:
        return host is not None and ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
