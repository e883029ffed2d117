"""The ssl.* settings of one listener: listener.name.<listener>.ssl.* where it is set, else ssl.* of all.

ssl.client.auth of all listeners does not hold for SASL_SSL ones, as in Kafka (ChannelBuilders): whoever logs in there
by name needs no certificate, unless the listener's own setting asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS, tls
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import Setting
from barnabas.config.messages import LISTENER_TLS_KEYS

_CLASSES: Final[tuple[ConfigKey[Any], ...]] = (tls.SSL_ENGINE_FACTORY_CLASS,)
"""Classes that decide who may connect: Java's cannot run here."""


def tls_texts(config: BrokerConfig, listener: str, protocol: str) -> dict[str, str]:
    """The texts of the settings that are set, by their names without a prefix."""
    texts = {}
    for name in LISTENER_TLS_KEYS:
        setting = config.listener_setting(listener, BROKER_KEYS[name])
        if setting is None or (protocol == "SASL_SSL" and setting.key == tls.SSL_CLIENT_AUTH.name):
            continue
        texts[name] = setting.text.strip()
    return texts


def ignored_client_auth(config: BrokerConfig, listener: str, protocol: str) -> Setting | None:
    """The setting that asks for clients' certificates on all listeners, where a SASL_SSL one does not follow it."""
    setting = config.listener_setting(listener, tls.SSL_CLIENT_AUTH)
    if setting is None or protocol != "SASL_SSL" or setting.key != tls.SSL_CLIENT_AUTH.name:
        return None
    return None if setting.text.strip() == "none" else setting


def refuse_unknown_classes(config: BrokerConfig, listener: str) -> Iterator[ConfigError]:
    """An error for each class that is to protect a listener, and is not there."""
    for key in _CLASSES:
        setting = config.listener_setting(listener, key)
        if setting is not None and setting.text.strip() not in {"", key.default}:
            yield ConfigError(
                setting.key,
                setting.text,
                "must be unset: it names a Java class, which cannot run here and would protect nothing",
                setting.place,
            )
