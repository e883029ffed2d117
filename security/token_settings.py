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
ASSERTION_ALGORITHM: Final = "sasl.oauthbearer.assertion.algorithm"
ASSERTION_AUD: Final = "sasl.oauthbearer.assertion.claim.aud"
ASSERTION_EXP_SECONDS: Final = "sasl.oauthbearer.assertion.claim.exp.seconds"
ASSERTION_ISS: Final = "sasl.oauthbearer.assertion.claim.iss"
ASSERTION_JTI: Final = "sasl.oauthbearer.assertion.claim.jti.include"
ASSERTION_NBF_SECONDS: Final = "sasl.oauthbearer.assertion.claim.nbf.seconds"
ASSERTION_SUB: Final = "sasl.oauthbearer.assertion.claim.sub"
ASSERTION_FILE: Final = "sasl.oauthbearer.assertion.file"
ASSERTION_KEY_FILE: Final = "sasl.oauthbearer.assertion.private.key.file"
ASSERTION_PASSPHRASE: Final = "sasl.oauthbearer.assertion.private.key.passphrase"
ASSERTION_TEMPLATE_FILE: Final = "sasl.oauthbearer.assertion.template.file"
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
    ASSERTION_ALGORITHM,
    ASSERTION_AUD,
    ASSERTION_EXP_SECONDS,
    ASSERTION_ISS,
    ASSERTION_JTI,
    ASSERTION_NBF_SECONDS,
    ASSERTION_SUB,
    ASSERTION_FILE,
    ASSERTION_KEY_FILE,
    ASSERTION_PASSPHRASE,
    ASSERTION_TEMPLATE_FILE,
)
