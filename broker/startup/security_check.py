"""What `barnabas config check` finds of security, and what a start says of it: the same, from one place.

`check_security` refuses what a start would refuse: JAAS entries, stores of keys, classes that cannot be loaded.
`weaknesses_of` is what is valid and weak.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

from barnabas.broker.http.server import OPEN, HttpSecurity
from barnabas.broker.startup.http_security import http_security
from barnabas.broker.startup.listener_securities import ListenerSecurities
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.server import AUTHORIZER_CLASS_NAME
from barnabas.config.catalogue.tls import SSL_KEYSTORE_CERTIFICATE_CHAIN, SSL_KEYSTORE_LOCATION
from barnabas.config.http import http_tls_settings
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError, Setting
from barnabas.config.messages import ConfigMessage

if TYPE_CHECKING:
    import ssl

    from barnabas.broker.security.sasl.jwks import ProviderKeys
    from barnabas.broker.security.sasl.oauthbearer_settings import Provider
    from barnabas.broker.security.tls_listener import TlsListener
    from barnabas.broker.security.weaknesses import SecretFile, Store

T = TypeVar("T")


def check_security(config: BrokerConfig, environ: Mapping[str, str] | None = None) -> list[ConfigMessage]:
    """What is weak. Raises InvalidConfigError with every error for which a start would be refused.

    Reads the stores and loads classes of the operator's own, as the start does; it makes no connection, so that the
    keys of identity providers are looked at only where they are in a file. `environ` are the environment
    variables, None for those of the process.
    """
    errors: dict[str, ConfigError] = {}  # by their text: some are of a setting of several listeners
    loop = asyncio.new_event_loop()  # runs nothing: its clock is for connections
    try:
        securities = _made(
            errors,
            lambda: ListenerSecurities(config, loop, InlineRunner(), environ, find_keys=_keys_of_file),
        )
        http = _made(errors, lambda: http_security(config))
        for check in _further_checks(config, environ):
            _made(errors, check)
        if errors or securities is None or http is None:
            raise InvalidConfigError(list(errors.values()), config.messages)
        return weaknesses_of(config, securities, http, environ)
    finally:
        loop.close()


def _keys_of_file(provider: Provider, make_context: Callable[[], ssl.SSLContext] | None) -> ProviderKeys:
    """The keys in a file; none of a provider that would have to be asked. Raises ProviderError."""
    from barnabas.broker.security.sasl.jwks import ProviderKeys
    from barnabas.security.identity_provider import get, is_file

    keys = ProviderKeys(provider.url, lambda: get(provider.url), provider.times, lambda: 0)
    if is_file(provider.url):
        keys.fetched(keys.fetch_now())
    return keys


def _made(errors: dict[str, ConfigError], make: Callable[[], T]) -> T | None:
    try:
        return make()
    except InvalidConfigError as error:
        errors |= {str(each): each for each in error.errors}
        return None


def _further_checks(
    config: BrokerConfig, environ: Mapping[str, str] | None
) -> Iterator[Callable[[], object]]:
    if config[AUTHORIZER_CLASS_NAME]:
        from barnabas.broker.security.loading import auth_helper_of

        yield lambda: auth_helper_of(config)
    if config.is_member:
        from barnabas.broker.startup.peer_security import controller_security, inter_broker_security

        yield lambda: inter_broker_security(config, environ)
        yield lambda: controller_security(config, environ)


def weaknesses_of(
    config: BrokerConfig,
    securities: ListenerSecurities,
    http: HttpSecurity,
    environ: Mapping[str, str] | None = None,
) -> list[ConfigMessage]:
    """What an operator should know of a broker that starts, a line each. Nothing of one that protects nothing."""
    if not config[AUTHORIZER_CLASS_NAME] and not securities.by_name and http == OPEN:
        return []
    from barnabas.broker.security.weaknesses import View, is_public, weaknesses

    stores = [*_listener_stores(config, securities), *_http_stores(config, http)]
    return weaknesses(View(config, time.time(), stores, [*_jaas_files(config, environ)], is_public))


def _listener_stores(config: BrokerConfig, securities: ListenerSecurities) -> Iterator[Store]:
    for name, security in securities.by_name.items():
        if security.tls is not None:
            found = [
                config.listener_setting(name, key)
                for key in (SSL_KEYSTORE_LOCATION, SSL_KEYSTORE_CERTIFICATE_CHAIN)
            ]
            yield _store(security.tls.stores, found[0] or found[1])


def _http_stores(config: BrokerConfig, http: HttpSecurity) -> Iterator[Store]:
    if http.tls is not None:
        settings = http_tls_settings(config)
        found = settings.get(SSL_KEYSTORE_LOCATION.name) or settings.get(SSL_KEYSTORE_CERTIFICATE_CHAIN.name)
        yield _store(http.tls.stores, found)


def _store(stores: TlsListener, setting: Setting | None) -> Store:
    from barnabas.broker.security.weaknesses import Store
    from barnabas.security.certificates import expires_s

    assert setting is not None, "there is no TLS without a key store"
    trusted = stores.trusted
    last = None if not trusted else max(map(expires_s, trusted))
    return Store(stores.name, setting.key, setting.place, stores.expires_s, last)


def _jaas_files(config: BrokerConfig, environ: Mapping[str, str] | None) -> Iterator[SecretFile]:
    """The static JAAS file, where a listener may read it."""
    from barnabas.broker.security.weaknesses import SecretFile
    from barnabas.broker.startup.jaas_file import read_jaas_file
    from barnabas.config.catalogue.barnabas import BARNABAS_JAAS_CONFIG_FILE

    try:
        file = read_jaas_file(config, environ)
    except ConfigError:  # where a listener needs it, it has prevented the start
        return
    if file is not None:
        yield SecretFile(file.path, "names passwords in", BARNABAS_JAAS_CONFIG_FILE.name, file.place)
