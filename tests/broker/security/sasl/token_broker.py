"""A broker for listeners of OAUTHBEARER: the keys of its identity provider, without a provider."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable

import pytest

from barnabas.broker.security.sasl.jwks import ProviderKeys
from barnabas.broker.security.sasl.listener import SaslListener, sasl_listener
from barnabas.broker.security.sasl.oauthbearer_settings import OAuthBearerSurroundings, Provider
from barnabas.broker.security.sasl.scram import ScramCredentials
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from barnabas.security.errors import ProviderError
from tests.support.tokens import SigningKey, key_set

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
PREFIX = "listener.name.sasl.oauthbearer."
JAAS = f"{PREFIX}sasl.jaas.config"
HANDLER = f"{PREFIX}sasl.server.callback.handler.class"
SIGNED = {HANDLER: f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"}
URL = "sasl.oauthbearer.jwks.endpoint.url"
KEYS_URL = {URL: "http://login.example/keys"}
KEY = SigningKey()
NOW = int(time.time())
LISTENERS = {
    "listeners": "SASL://:9093,PLAINTEXT://:9092",
    "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
}


class Broker:
    """What a mechanism needs of its broker: keys without a provider."""

    def __init__(self, java_options: str = "") -> None:
        self.asked: list[Provider] = []
        self.error: ProviderError | None = None
        self.has_context: list[bool] = []
        self.surroundings = OAuthBearerSurroundings(self.find, lambda: NOW * 1000, java_options)

    def find(self, provider: Provider, make_context: Callable[[], ssl.SSLContext] | None) -> ProviderKeys:
        if self.error is not None:
            raise self.error
        self.asked.append(provider)
        self.has_context.append(make_context is not None)
        keys = ProviderKeys(provider.url, lambda: key_set(KEY), provider.times, lambda: 0)
        keys.fetched(keys.fetch_now())
        return keys

    def listener(self, settings: dict[str, str]) -> SaslListener:
        given = [f"{key}={value}" for key, value in {**LISTENERS, **settings}.items()]
        config = BrokerConfig.of(None, overrides=given)
        return sasl_listener(config, "SASL", ScramCredentials(), None, self.surroundings)

    def errors(self, settings: dict[str, str]) -> str:
        with pytest.raises(InvalidConfigError) as caught:
            self.listener(settings)
        return str(caught.value)
