"""The TLS and the login of the HTTP port, from the configuration. What they need is imported where they are set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.http.server import OPEN, HttpSecurity
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_TLS_RELOAD_INTERVAL_MS
from barnabas.config.catalogue.http import BARNABAS_HTTP_SASL_JAAS_CONFIG
from barnabas.config.catalogue.network import CONNECTION_FAILED_AUTHENTICATION_DELAY_MS
from barnabas.config.catalogue.tls import SSL_ALLOW_DN_CHANGES, SSL_ALLOW_SAN_CHANGES
from barnabas.config.http import PREFIX, has_login, has_tls, http_tls_settings, is_open
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError

if TYPE_CHECKING:
    from barnabas.broker.http.login import BasicLogin
    from barnabas.broker.http.tls import HttpTls


def http_security(config: BrokerConfig) -> HttpSecurity:
    """Raises InvalidConfigError, with every error of it."""
    if not is_open(config):
        return OPEN
    errors: list[ConfigError] = []
    tls = login = None
    try:
        login = _login(config) if has_login(config) else None
    except ConfigError as error:
        errors.append(error)
    try:
        tls = _tls(config) if has_tls(config) else None
    except ConfigError as error:
        errors.append(error)
    if errors:
        raise InvalidConfigError(errors)
    return HttpSecurity(tls, login)


def _login(config: BrokerConfig) -> BasicLogin:
    """Raises ConfigError, with no value of the entry."""
    from barnabas.broker.http.login import BasicLogin
    from barnabas.broker.security.sasl.listener import PLAIN_LOGIN_MODULE
    from barnabas.broker.security.sasl.plain import USER_PREFIX, JaasLogins
    from barnabas.security.jaas import JaasError, parse_value

    key = BARNABAS_HTTP_SASL_JAAS_CONFIG

    def wrong(requirement: str) -> ConfigError:
        return key.error(config[key], requirement).at(config.place(key))

    try:
        entry = parse_value(config[key] or "")
    except JaasError as error:
        raise wrong(f"the entry of one login module: {error}") from None
    if entry.login_module != PLAIN_LOGIN_MODULE:
        raise wrong(f"an entry of {PLAIN_LOGIN_MODULE}; it is one of {entry.login_module}")
    users = JaasLogins(entry.options)
    if not len(users):
        raise wrong(
            f'an entry with users, as {PLAIN_LOGIN_MODULE} required {USER_PREFIX}prometheus="a password";'
        )
    return BasicLogin(users, config[CONNECTION_FAILED_AUTHENTICATION_DELAY_MS] / 1000)


def _tls(config: BrokerConfig) -> HttpTls:
    """Raises ConfigError for stores that cannot be used."""
    from barnabas.broker.http.login import LISTENER
    from barnabas.broker.http.tls import HttpTls
    from barnabas.broker.security.tls_listener import ReplacementRules, TlsListener
    from barnabas.security.errors import SettingError
    from barnabas.security.settings import TlsSettings

    settings = http_tls_settings(config)
    rules = ReplacementRules(config[SSL_ALLOW_DN_CHANGES], config[SSL_ALLOW_SAN_CHANGES])
    texts = {name: setting.text.strip() for name, setting in settings.items()}
    try:
        stores = TlsListener(LISTENER, TlsSettings(texts), rules)
    except SettingError as error:
        found = settings.get(error.key)
        name, place = (PREFIX + error.key, "") if found is None else (found.key, found.place)
        raise ConfigError(name, error.value, error.requirement, place, phrase=error.phrase) from None
    return HttpTls(stores, rules, config[BARNABAS_TLS_RELOAD_INTERVAL_MS] / 1000)
