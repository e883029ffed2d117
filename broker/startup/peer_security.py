"""How this node speaks with others of its cluster: security protocol, stores and login of its connections to them.

Brokers are reached by the inter-broker listener, controllers by the first of controller.listener.names; the settings
of both are those of that listener, with its prefix or of all. The login is that of the JAAS entry that the listener has
for the mechanism, in its own value or in the static file: its options username and password.

Source: ChannelBuilders.clientChannelBuilder, JaasContext.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from barnabas.broker.node_client.opening import Open, opener
from barnabas.broker.security.jaas_entries import jaas_entries, jaas_key
from barnabas.broker.startup.jaas_file import read_jaas_file
from barnabas.broker.startup.setting_errors import setting_error
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.catalogue.controller import (
    CONTROLLER_LISTENER_NAMES,
    SASL_MECHANISM_CONTROLLER_PROTOCOL,
)
from barnabas.config.catalogue.network import LISTENER_SECURITY_PROTOCOL_MAP
from barnabas.config.catalogue.sasl import SASL_MECHANISM_INTER_BROKER_PROTOCOL
from barnabas.config.keys import ConfigError, ConfigKey
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import parse_protocol_map
from barnabas.config.tls import tls_texts
from barnabas.security.client_settings import PLAINTEXT, ClientSecurity, security_of
from barnabas.security.errors import SettingError
from barnabas.security.sasl_client import LOGIN_KEYS, ClientLogin, login_of
from barnabas.security.settings import TlsSettings


def inter_broker_security(config: BrokerConfig, environ: Mapping[str, str] | None = None) -> ClientSecurity:
    """Of connections to brokers. Raises InvalidConfigError."""
    name = config.inter_broker_listener
    protocol = next((each.security_protocol for each in config.listeners if each.name == name), PLAINTEXT)
    return _security(config, name, protocol, SASL_MECHANISM_INTER_BROKER_PROTOCOL, environ)


def controller_security(config: BrokerConfig, environ: Mapping[str, str] | None = None) -> ClientSecurity:
    """Of connections to controllers. Raises InvalidConfigError."""
    name = _controller_listener(config)
    protocol = parse_protocol_map(config[LISTENER_SECURITY_PROTOCOL_MAP]).get(name, PLAINTEXT)
    return _security(config, name, protocol, SASL_MECHANISM_CONTROLLER_PROTOCOL, environ)


def _controller_listener(config: BrokerConfig) -> str:
    names = config[CONTROLLER_LISTENER_NAMES] or (PLAINTEXT,)
    return names[0].upper()


def _security(
    config: BrokerConfig,
    listener: str,
    protocol: str,
    mechanism_key: ConfigKey[str],
    environ: Mapping[str, str] | None,
) -> ClientSecurity:
    def read_login() -> ClientLogin:
        mechanism = config[mechanism_key].strip().upper()
        given = jaas_entries(config, listener, mechanism, read_jaas_file(config, environ))
        return login_of(
            mechanism,
            None if given is None else given.entries,
            _login_texts(config, listener, mechanism),
            mechanism_key=mechanism_key.name,
            jaas_key=jaas_key(listener, mechanism),
        )

    try:
        return security_of(protocol, TlsSettings(tls_texts(config, listener, protocol)), read_login)
    except SettingError as error:
        raise InvalidConfigError([setting_error(config, listener, error)]) from None
    except ConfigError as error:
        raise InvalidConfigError([error]) from None


def _login_texts(config: BrokerConfig, listener: str, mechanism: str) -> dict[str, str]:
    """What is set of a login for this listener beside its JAAS entry, by names without a prefix."""
    texts = {}
    for name in LOGIN_KEYS:
        key = BROKER_KEYS.get(name)
        setting = None if key is None else config.listener_setting(listener, key, mechanism)
        if setting is not None:
            texts[name] = setting.text
    return texts


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
        raise InvalidConfigError([setting_error(config, name, error)]) from None
