"""How this node speaks with others of its cluster: security protocol, stores and login of its connections to them.

Brokers are reached by the inter-broker listener, controllers by the first of controller.listener.names; the settings
of both are those of that listener, with its prefix or of all. The login is that of the listener's JAAS entry for the
mechanism: its options username and password. Source: ChannelBuilders.clientChannelBuilder, JaasContext.
"""

from __future__ import annotations

import asyncio

from barnabas.broker.node_client.client import Open, opener
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.controller import (
    CONTROLLER_LISTENER_NAMES,
    SASL_MECHANISM_CONTROLLER_PROTOCOL,
)
from barnabas.config.catalogue.network import LISTENER_SECURITY_PROTOCOL_MAP
from barnabas.config.catalogue.sasl import SASL_MECHANISM_INTER_BROKER_PROTOCOL
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import parse_protocol_map
from barnabas.config.tls import listener_setting_name, tls_texts
from barnabas.security.client_settings import PLAINTEXT, ClientSecurity, security_of
from barnabas.security.errors import SettingError
from barnabas.security.settings import TlsSettings


def inter_broker_security(config: BrokerConfig) -> ClientSecurity:
    """Of connections to brokers. Raises InvalidConfigError."""
    name = config.inter_broker_listener
    protocol = next((each.security_protocol for each in config.listeners if each.name == name), PLAINTEXT)
    return _security(config, name, protocol, SASL_MECHANISM_INTER_BROKER_PROTOCOL)


def controller_security(config: BrokerConfig) -> ClientSecurity:
    """Of connections to controllers. Raises InvalidConfigError."""
    name = _controller_listener(config)
    protocol = parse_protocol_map(config[LISTENER_SECURITY_PROTOCOL_MAP]).get(name, PLAINTEXT)
    return _security(config, name, protocol, SASL_MECHANISM_CONTROLLER_PROTOCOL)


def _controller_listener(config: BrokerConfig) -> str:
    names = config[CONTROLLER_LISTENER_NAMES] or (PLAINTEXT,)
    return names[0].upper()


def _security(
    config: BrokerConfig, listener: str, protocol: str, mechanism_key: ConfigKey[str]
) -> ClientSecurity:
    mechanism = config[mechanism_key]
    jaas_key = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    jaas = config.unknown.get(jaas_key)
    try:
        return security_of(
            protocol,
            TlsSettings(tls_texts(config, listener, protocol)),
            mechanism=mechanism,
            jaas=None if jaas is None else jaas.text,
            mechanism_key=mechanism_key.name,
            jaas_key=jaas_key,
        )
    except SettingError as error:
        raise _invalid(config, listener, error) from None


def peer_opener(
    loop: asyncio.AbstractEventLoop, config: BrokerConfig, *, controllers: bool, client_id: str
) -> Open:
    """Opens connections to brokers, or to controllers. Raises InvalidConfigError for stores that cannot be used."""
    if controllers:
        name, security = _controller_listener(config), controller_security(config)
    else:
        name, security = config.inter_broker_listener, inter_broker_security(config)
    if security.protocol == PLAINTEXT:
        return opener(loop)
    from barnabas.broker.node_client.secure import secure_opener

    try:
        return secure_opener(loop, security, client_id)
    except SettingError as error:
        raise _invalid(config, name, error) from None


def _invalid(config: BrokerConfig, listener: str, error: SettingError) -> InvalidConfigError:
    name, place = listener_setting_name(config, listener, error.key)
    return InvalidConfigError([ConfigError(name, error.value, error.requirement, place)])
