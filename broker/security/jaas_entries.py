"""The login modules of one mechanism of a listener: of its own sasl.jaas.config, or of the static JAAS file.

They have both the users that may log in and, as `username` and `password`, how this broker logs in to others by the
same listener. Source: org.apache.kafka.common.security.JaasContext.loadServerContext.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_JAAS_CONFIG_FILE
from barnabas.config.catalogue.sasl import SASL_JAAS_CONFIG
from barnabas.config.keys import ConfigError
from barnabas.security.jaas import JaasEntry, JaasError, parse_value, server_entries


class JaasFile(NamedTuple):
    """The static file: its entries by context name, and what to call it in an error."""

    contexts: Mapping[str, list[JaasEntry]]
    path: str
    place: str = ""


class JaasEntries(NamedTuple):
    """The login modules of a mechanism; `is_own`: they are in its own sasl.jaas.config."""

    entries: list[JaasEntry]
    is_own: bool


def jaas_key(listener: str, mechanism: str) -> str:
    """The name of a mechanism's own sasl.jaas.config."""
    return f"listener.name.{listener.lower()}.{mechanism.lower()}.{SASL_JAAS_CONFIG.name}"


def jaas_entries(
    config: BrokerConfig, listener: str, mechanism: str, file: JaasFile | None
) -> JaasEntries | None:
    """None where neither has any. Raises ConfigError, with no value of theirs."""
    key = jaas_key(listener, mechanism)
    own = config.unknown.get(key)
    if own is not None:
        try:
            return JaasEntries([parse_value(own.text)], is_own=True)
        except JaasError as error:
            requirement = f"must be the entry of one login module: {error}"
            raise ConfigError(key, "[hidden]", requirement, own.place) from None
    if file is None:
        return None
    try:
        found = server_entries(file.contexts, listener)
    except JaasError as error:
        requirement = f"must be a JAAS file of login modules that are allowed: {error}"
        raise ConfigError(BARNABAS_JAAS_CONFIG_FILE.name, file.path, requirement, file.place) from None
    return None if found is None else JaasEntries(found, is_own=False)


def options_of(login_module: str, entries: list[JaasEntry]) -> Mapping[str, str]:
    """The options of all entries of a login module; of several with the same name the first counts."""
    found = [entry for entry in entries if entry.login_module == login_module]
    return {key: value for entry in reversed(found) for key, value in entry.options.items()}
