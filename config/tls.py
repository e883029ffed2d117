"""The ssl.* settings of one listener: listener.name.<listener>.ssl.* where it is set, else ssl.* of all.

ssl.client.auth of all listeners does not hold for SASL_SSL ones, as in Kafka (ChannelBuilders): whoever logs in there
by name needs no certificate, unless the listener's own setting asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import tls
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.messages import LISTENER_TLS_KEYS

_PREFIX: Final = "listener.name."
_CLASSES: Final[tuple[ConfigKey[Any], ...]] = (tls.SSL_ENGINE_FACTORY_CLASS, tls.PRINCIPAL_BUILDER_CLASS)
"""Classes that decide who may connect, and as whom: Java's cannot run here."""


def tls_texts(config: BrokerConfig, listener: str, protocol: str) -> dict[str, str]:
    """The texts of the settings that are set, by their names without a prefix."""
    texts = {}
    for name in LISTENER_TLS_KEYS:
        own = config.unknown.get(f"{_PREFIX}{listener.lower()}.{name}")
        if own is not None:
            texts[name] = own.text.strip()
        elif (layers := config.layers(name)) and (name != tls.SSL_CLIENT_AUTH.name or protocol == "SSL"):
            texts[name] = layers[0].text.strip()
    return texts


def listener_setting_name(config: BrokerConfig, listener: str, name: str) -> tuple[str, str]:
    """The name by which a listener's setting is set, and its place; the name of all listeners and "" if it is not."""
    own = f"{_PREFIX}{listener.lower()}.{name}"
    for each in (own, name):
        if layers := config.layers(each):
            return each, layers[0].place
    return name, ""


def refuse_unknown_classes(config: BrokerConfig) -> Iterator[ConfigError]:
    """An error for each class that is to protect the broker, and is not there."""
    for key in _CLASSES:
        setting = config.setting(key)
        if setting is not None and setting.text.strip() not in {"", key.default}:
            yield key.error(
                setting.text, "unset: it names a Java class, which cannot run here and would protect nothing"
            ).at(setting.place)
