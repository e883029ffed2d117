"""Names of OAUTHBEARER: Apache Kafka's classes, and the properties by which a client logs in, without a prefix."""

from __future__ import annotations

from typing import Final

PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
LOGIN_MODULE: Final = f"{PACKAGE}.OAuthBearerLoginModule"
LOGIN_HANDLER: Final = f"{PACKAGE}.OAuthBearerLoginCallbackHandler"
UNSECURED_LOGIN_HANDLER: Final = f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler"
VALIDATOR_HANDLER: Final = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
UNSECURED_VALIDATOR_HANDLER: Final = (
    f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)

CALLBACK_HANDLER: Final = "sasl.login.callback.handler.class"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
RETRIEVER: Final = "sasl.oauthbearer.jwt.retriever.class"
VALIDATOR: Final = "sasl.oauthbearer.jwt.validator.class"
CLIENT_ID: Final = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET: Final = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE: Final = "sasl.oauthbearer.scope"
URLENCODE: Final = "sasl.oauthbearer.header.urlencode"
SUB_CLAIM: Final = "sasl.oauthbearer.sub.claim.name"
CONNECT_TIMEOUT: Final = "sasl.login.connect.timeout.ms"
READ_TIMEOUT: Final = "sasl.login.read.timeout.ms"
BACKOFF: Final = "sasl.login.retry.backoff.ms"
BACKOFF_MAX: Final = "sasl.login.retry.backoff.max.ms"
WINDOW_FACTOR: Final = "sasl.login.refresh.window.factor"
WINDOW_JITTER: Final = "sasl.login.refresh.window.jitter"
MIN_PERIOD: Final = "sasl.login.refresh.min.period.seconds"
BUFFER: Final = "sasl.login.refresh.buffer.seconds"
ASSERTION_PREFIX: Final = "sasl.oauthbearer.assertion."
TOKEN_LOGIN_KEYS: Final = (
    CALLBACK_HANDLER,
    TOKEN_URL,
    RETRIEVER,
    VALIDATOR,
    CLIENT_ID,
    CLIENT_SECRET,
    SCOPE,
    URLENCODE,
    SUB_CLAIM,
    "sasl.oauthbearer.scope.claim.name",
    CONNECT_TIMEOUT,
    READ_TIMEOUT,
    BACKOFF,
    BACKOFF_MAX,
    WINDOW_FACTOR,
    WINDOW_JITTER,
    MIN_PERIOD,
    BUFFER,
)
