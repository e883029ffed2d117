"""Broker keys for SASL: mechanisms, Kerberos, logins, OAuth bearer tokens.

Source: SaslConfigs, BrokerSecurityConfigs. Most can also be set for one listener and mechanism, by the prefix
listener.name.<listener>.<mechanism>.
"""

from barnabas.config.catalogue.use import ACTED, IN_CLUSTER, LIBKRB5_RENEWS, NO_JAVA
from barnabas.config.keys import HIGH, LOW, MEDIUM, PER_BROKER, KeySet
from barnabas.config.validators import ListOf, OneOf, between

keys = KeySet()

# Mechanisms.

SASL_ENABLED_MECHANISMS = keys.list_(
    "sasl.enabled.mechanisms", ("GSSAPI",), MEDIUM, ACTED, ListOf(may_be_empty=True), PER_BROKER
).doc(
    "The SASL mechanisms by which clients may authenticate: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI, OAUTHBEARER. "
    "The default, Kerberos, needs the extra `kerberos` and a keytab."
)
SASL_MECHANISM_INTER_BROKER_PROTOCOL = keys.string(
    "sasl.mechanism.inter.broker.protocol", "GSSAPI", MEDIUM, IN_CLUSTER, None, PER_BROKER
).doc("The SASL mechanism by which brokers authenticate to each other.")
SASL_JAAS_CONFIG = keys.password("sasl.jaas.config", None, MEDIUM, ACTED, None, PER_BROKER).doc(
    "The login module of one mechanism of a listener and its options, in JAAS syntax; it acts as "
    "listener.name.<listener>.<mechanism>.sasl.jaas.config alone. Without it the static file counts: see "
    'barnabas.jaas.config.file. PLAIN has its users here, as user_<name>="<password>".'
)
SASL_SERVER_CALLBACK_HANDLER_CLASS = keys.class_name(
    "sasl.server.callback.handler.class", None, MEDIUM, ACTED
).doc(
    "The class that checks what clients present to one mechanism of a listener, as "
    "listener.name.<listener>.<mechanism>.sasl.server.callback.handler.class. For PLAIN "
    "and OAUTHBEARER a class of your own in Python, as python:module:Class; broker/security/sasl/plain.py and "
    "oauthbearer.py have examples. OAUTHBEARER needs it, or "
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler: Kafka's default takes tokens "
    "that nobody has signed. A Java class other than Kafka's own is rejected."
)
SASL_CLIENT_CALLBACK_HANDLER_CLASS = keys.class_name(
    "sasl.client.callback.handler.class", None, MEDIUM, NO_JAVA
).doc("The class that answers when this broker authenticates to another.")
SASL_SERVER_MAX_RECEIVE_SIZE = keys.int_("sasl.server.max.receive.size", 512 << 10, MEDIUM, ACTED).doc(
    "The largest request of a client that has not authenticated; a larger one ends its connection."
)
CONNECTIONS_MAX_REAUTH_MS = keys.long("connections.max.reauth.ms", 0, MEDIUM, ACTED).doc(
    "How long a SASL session holds; a client that has not authenticated again by then is disconnected. 0 sets "
    "no limit."
)

# Kerberos.

SASL_KERBEROS_SERVICE_NAME = keys.optional_string(
    "sasl.kerberos.service.name", None, MEDIUM, ACTED, None, PER_BROKER
).doc(
    "The first part of the brokers' Kerberos principals: kafka of kafka/host@REALM. It may be the option serviceName "
    "of Krb5LoginModule instead; GSSAPI needs one of the two."
)
SASL_KERBEROS_KINIT_CMD = keys.string(
    "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", MEDIUM, LIBKRB5_RENEWS, None, PER_BROKER
).doc("Where the kinit command lies.")
SASL_KERBEROS_TICKET_RENEW_WINDOW_FACTOR = keys.double(
    "sasl.kerberos.ticket.renew.window.factor", 0.8, MEDIUM, LIBKRB5_RENEWS, None, PER_BROKER
).doc("After which share of its life a ticket is renewed.")
SASL_KERBEROS_TICKET_RENEW_JITTER = keys.double(
    "sasl.kerberos.ticket.renew.jitter", 0.05, MEDIUM, LIBKRB5_RENEWS, None, PER_BROKER
).doc("By which share that moment varies at random.")
SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN = keys.long(
    "sasl.kerberos.min.time.before.relogin", 60_000, MEDIUM, LIBKRB5_RENEWS, None, PER_BROKER
).doc("How long the renewal thread rests at least between two attempts.")
SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES = keys.list_(
    "sasl.kerberos.principal.to.local.rules",
    ("DEFAULT",),
    MEDIUM,
    ACTED,
    ListOf(may_be_empty=True),
    PER_BROKER,
).doc(
    "Rules that turn a Kerberos principal into a user name: DEFAULT, or RULE: and what docs/security.md describes. The "
    "first that matches holds, and a client whom none matches is not let in."
)

# Logins.

SASL_LOGIN_CLASS = keys.class_name("sasl.login.class", None, MEDIUM, NO_JAVA).doc(
    "The class that logs this broker in."
)
SASL_LOGIN_CALLBACK_HANDLER_CLASS = keys.class_name(
    "sasl.login.callback.handler.class", None, MEDIUM, IN_CLUSTER
).doc(
    "Where the token comes from by which this broker logs in to others with OAUTHBEARER, as "
    "listener.name.<listener>.oauthbearer.sasl.login.callback.handler.class: "
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler."
)
SASL_LOGIN_REFRESH_WINDOW_FACTOR = keys.double(
    "sasl.login.refresh.window.factor", 0.8, MEDIUM, IN_CLUSTER, None, PER_BROKER
).doc("After which share of its life a credential is refreshed.")
SASL_LOGIN_REFRESH_WINDOW_JITTER = keys.double(
    "sasl.login.refresh.window.jitter", 0.05, MEDIUM, IN_CLUSTER, None, PER_BROKER
).doc("By which share that moment varies at random.")
SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS = keys.short(
    "sasl.login.refresh.min.period.seconds", 60, MEDIUM, IN_CLUSTER, None, PER_BROKER
).doc("How long a fresh credential is left alone.")
SASL_LOGIN_REFRESH_BUFFER_SECONDS = keys.short(
    "sasl.login.refresh.buffer.seconds", 300, MEDIUM, IN_CLUSTER, None, PER_BROKER
).doc("How long before its end a credential is refreshed at the latest.")
SASL_LOGIN_CONNECT_TIMEOUT_MS = keys.optional_int("sasl.login.connect.timeout.ms", None, LOW, IN_CLUSTER).doc(
    "How long a connection to the identity provider may take."
)
SASL_LOGIN_READ_TIMEOUT_MS = keys.optional_int("sasl.login.read.timeout.ms", None, LOW, IN_CLUSTER).doc(
    "How long the identity provider may take to answer."
)
SASL_LOGIN_RETRY_BACKOFF_MS = keys.long("sasl.login.retry.backoff.ms", 100, LOW, IN_CLUSTER).doc(
    "How long the first retry of a login to the identity provider waits."
)
SASL_LOGIN_RETRY_BACKOFF_MAX_MS = keys.long("sasl.login.retry.backoff.max.ms", 10_000, LOW, IN_CLUSTER).doc(
    "How long such a retry waits at most."
)

# OAuth: getting a token for this broker.

SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL = keys.optional_string(
    "sasl.oauthbearer.token.endpoint.url", None, MEDIUM, IN_CLUSTER
).doc("Where tokens come from: the identity provider's URL, or a file.")
SASL_OAUTHBEARER_JWT_RETRIEVER_CLASS = keys.class_name(
    "sasl.oauthbearer.jwt.retriever.class",
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever",
    MEDIUM,
    IN_CLUSTER,
).doc(
    "How this broker gets its token: DefaultJwtRetriever, ClientCredentialsJwtRetriever, FileJwtRetriever, or "
    "JwtBearerJwtRetriever, by an assertion. Another class prevents the start."
)
SASL_OAUTHBEARER_SCOPE = keys.optional_string("sasl.oauthbearer.scope", None, MEDIUM, IN_CLUSTER).doc(
    "The scope to request with a token."
)
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_ID = keys.optional_string(
    "sasl.oauthbearer.client.credentials.client.id", None, MEDIUM, IN_CLUSTER
).doc("The client id for the client-credentials grant.")
SASL_OAUTHBEARER_CLIENT_CREDENTIALS_CLIENT_SECRET = keys.password(
    "sasl.oauthbearer.client.credentials.client.secret", None, MEDIUM, IN_CLUSTER
).doc("The secret for the client-credentials grant.")
SASL_OAUTHBEARER_ASSERTION_ALGORITHM = keys.string(
    "sasl.oauthbearer.assertion.algorithm",
    "RS256",
    MEDIUM,
    IN_CLUSTER,
    OneOf("ES256", "RS256", ignore_case=True),
).doc("The algorithm by which an assertion is signed.")
SASL_OAUTHBEARER_ASSERTION_CLAIM_AUD = keys.optional_string(
    "sasl.oauthbearer.assertion.claim.aud", None, MEDIUM, IN_CLUSTER
).doc("The audience that an assertion claims.")
SASL_OAUTHBEARER_ASSERTION_CLAIM_EXP_SECONDS = keys.int_(
    "sasl.oauthbearer.assertion.claim.exp.seconds", 300, LOW, IN_CLUSTER, between(0, 86_400)
).doc("How long an assertion holds.")
SASL_OAUTHBEARER_ASSERTION_CLAIM_ISS = keys.optional_string(
    "sasl.oauthbearer.assertion.claim.iss", None, MEDIUM, IN_CLUSTER
).doc("The issuer that an assertion claims.")
SASL_OAUTHBEARER_ASSERTION_CLAIM_JTI_INCLUDE = keys.boolean(
    "sasl.oauthbearer.assertion.claim.jti.include", False, MEDIUM, IN_CLUSTER
).doc("Whether an assertion carries an identifier of its own.")
SASL_OAUTHBEARER_ASSERTION_CLAIM_NBF_SECONDS = keys.int_(
    "sasl.oauthbearer.assertion.claim.nbf.seconds", 60, LOW, IN_CLUSTER, between(0, 3_600)
).doc("How far in the past an assertion begins to hold, for clocks that disagree.")
SASL_OAUTHBEARER_ASSERTION_CLAIM_SUB = keys.optional_string(
    "sasl.oauthbearer.assertion.claim.sub", None, MEDIUM, IN_CLUSTER
).doc("The subject that an assertion claims.")
SASL_OAUTHBEARER_ASSERTION_FILE = keys.optional_string(
    "sasl.oauthbearer.assertion.file", None, MEDIUM, IN_CLUSTER
).doc("A file with a ready assertion.")
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_FILE = keys.optional_string(
    "sasl.oauthbearer.assertion.private.key.file", None, MEDIUM, IN_CLUSTER
).doc("The file with the private key by which assertions are signed, as PEM.")
SASL_OAUTHBEARER_ASSERTION_PRIVATE_KEY_PASSPHRASE = keys.password(
    "sasl.oauthbearer.assertion.private.key.passphrase", None, MEDIUM, IN_CLUSTER
).doc("The passphrase of that key.")
SASL_OAUTHBEARER_ASSERTION_TEMPLATE_FILE = keys.optional_string(
    "sasl.oauthbearer.assertion.template.file", None, MEDIUM, IN_CLUSTER
).doc("A file with the headers and claims that assertions start from, as JSON.")

# OAuth: checking the token of a client.

SASL_OAUTHBEARER_JWT_VALIDATOR_CLASS = keys.class_name(
    "sasl.oauthbearer.jwt.validator.class",
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    MEDIUM,
    ACTED,
).doc(
    "The class that checks tokens: DefaultJwtValidator or BrokerJwtValidator, which are the same here. Another "
    "prevents the start; a class of your own in Python is sasl.server.callback.handler.class."
)
SASL_OAUTHBEARER_EXPECTED_AUDIENCE = keys.list_(
    "sasl.oauthbearer.expected.audience", (), HIGH, ACTED, ListOf(may_be_empty=True)
).doc("The audiences of which a token must name one; empty takes only tokens that name none.")
SASL_OAUTHBEARER_EXPECTED_ISSUER = keys.optional_string(
    "sasl.oauthbearer.expected.issuer", None, HIGH, ACTED
).doc("The issuer that a token must name; unset takes any.")
SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS = keys.int_("sasl.oauthbearer.clock.skew.seconds", 30, LOW, ACTED).doc(
    "By how much the clocks of this broker and of the identity provider may differ."
)
SASL_OAUTHBEARER_SCOPE_CLAIM_NAME = keys.string("sasl.oauthbearer.scope.claim.name", "scope", LOW, ACTED).doc(
    "The claim of a token that holds its scopes."
)
SASL_OAUTHBEARER_SUB_CLAIM_NAME = keys.string("sasl.oauthbearer.sub.claim.name", "sub", LOW, ACTED).doc(
    "The claim of a token that holds the user's name."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_URL = keys.optional_string(
    "sasl.oauthbearer.jwks.endpoint.url", None, MEDIUM, ACTED
).doc(
    "Where the identity provider publishes its keys (JSON Web Key Set): http, https or file. The first fetch must "
    "succeed, or the broker does not start."
)
SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS = keys.long(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000, LOW, ACTED
).doc("How often these keys are fetched again.")
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS = keys.long(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100, LOW, ACTED
).doc("How long the first retry of a failed fetch waits.")
SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS = keys.long(
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000, LOW, ACTED
).doc("How long such a retry waits at most.")
