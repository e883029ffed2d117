"""Broker keys for TLS, principals and delegation tokens.

Source: SslConfigs, BrokerSecurityConfigs, DelegationTokenManagerConfigs.
"""

from barnabas.config.catalogue.use import ACTED, NO_JAVA
from barnabas.config.keys import LOW, MEDIUM, PER_BROKER, KeySet
from barnabas.config.validators import ListOf, OneOf, at_least

keys = KeySet()

# The protocol.

SSL_PROTOCOL = keys.string("ssl.protocol", "TLSv1.3", MEDIUM, ACTED, None, PER_BROKER).doc(
    "The newest version of TLS that is spoken."
)
SSL_ENABLED_PROTOCOLS = keys.list_(
    "ssl.enabled.protocols",
    ("TLSv1.2", "TLSv1.3"),
    MEDIUM,
    ACTED,
    ListOf(may_be_empty=True),
    PER_BROKER,
).doc("The versions of TLS that clients may speak.")
SSL_CIPHER_SUITES = keys.list_(
    "ssl.cipher.suites", (), MEDIUM, ACTED, ListOf(may_be_empty=True), PER_BROKER
).doc("The cipher suites that may be used; empty leaves the choice to the TLS library.")
SSL_CLIENT_AUTH = keys.string(
    "ssl.client.auth", "none", MEDIUM, ACTED, OneOf("required", "requested", "none"), PER_BROKER
).doc("Whether clients must show a certificate, may show one, or need none.")
SSL_ENDPOINT_IDENTIFICATION_ALGORITHM = keys.string(
    "ssl.endpoint.identification.algorithm", "https", LOW, ACTED, None, PER_BROKER
).doc("How the name in a server's certificate is checked; empty checks nothing.")
SSL_PROVIDER = keys.optional_string("ssl.provider", None, MEDIUM, NO_JAVA, None, PER_BROKER).doc(
    "The Java security provider for TLS."
)
SSL_SECURE_RANDOM_IMPLEMENTATION = keys.optional_string(
    "ssl.secure.random.implementation", None, LOW, NO_JAVA, None, PER_BROKER
).doc("The Java random number generator for TLS.")
SSL_ENGINE_FACTORY_CLASS = keys.class_name(
    "ssl.engine.factory.class", None, LOW, ACTED, None, PER_BROKER
).doc("The class that sets up TLS. None is known here; any is rejected.")
SECURITY_PROVIDERS = keys.optional_string("security.providers", None, LOW, NO_JAVA).doc(
    "Java security providers to be registered at the start."
)

# Our own certificate and key.

SSL_KEYSTORE_TYPE = keys.string("ssl.keystore.type", "JKS", MEDIUM, ACTED, None, PER_BROKER).doc(
    "The format of the key store: JKS, PKCS12 or PEM."
)
SSL_KEYSTORE_LOCATION = keys.optional_string(
    "ssl.keystore.location", None, MEDIUM, ACTED, None, PER_BROKER
).doc("The file that holds this broker's certificate and private key.")
SSL_KEYSTORE_PASSWORD = keys.password("ssl.keystore.password", None, MEDIUM, ACTED, None, PER_BROKER).doc(
    "The password of the key store; PEM files have none."
)
SSL_KEY_PASSWORD = keys.password("ssl.key.password", None, MEDIUM, ACTED, None, PER_BROKER).doc(
    "The password of the private key in the key store or in ssl.keystore.key."
)
SSL_KEYSTORE_KEY = keys.password("ssl.keystore.key", None, MEDIUM, ACTED, None, PER_BROKER).doc(
    "The private key itself, as PEM in PKCS#8."
)
SSL_KEYSTORE_CERTIFICATE_CHAIN = keys.password(
    "ssl.keystore.certificate.chain", None, MEDIUM, ACTED, None, PER_BROKER
).doc("The certificate itself, with those that vouch for it, as PEM.")
SSL_KEYMANAGER_ALGORITHM = keys.string(
    "ssl.keymanager.algorithm", "SunX509", MEDIUM, NO_JAVA, None, PER_BROKER
).doc("The Java algorithm that chooses among several keys.")

# Trusted certificates.

SSL_TRUSTSTORE_TYPE = keys.string("ssl.truststore.type", "JKS", MEDIUM, ACTED, None, PER_BROKER).doc(
    "The format of the trust store: JKS, PKCS12 or PEM."
)
SSL_TRUSTSTORE_LOCATION = keys.optional_string(
    "ssl.truststore.location", None, MEDIUM, ACTED, None, PER_BROKER
).doc("The file that holds the certificates by which those of others are checked.")
SSL_TRUSTSTORE_PASSWORD = keys.password("ssl.truststore.password", None, MEDIUM, ACTED, None, PER_BROKER).doc(
    "The password of the trust store; without it the store is read unchecked. PEM files have none."
)
SSL_TRUSTSTORE_CERTIFICATES = keys.password(
    "ssl.truststore.certificates", None, MEDIUM, ACTED, None, PER_BROKER
).doc("The trusted certificates themselves, as PEM.")
SSL_TRUSTMANAGER_ALGORITHM = keys.string(
    "ssl.trustmanager.algorithm", "PKIX", MEDIUM, NO_JAVA, None, PER_BROKER
).doc("The Java algorithm that checks certificates.")
SSL_ALLOW_DN_CHANGES = keys.boolean("ssl.allow.dn.changes", False, LOW, ACTED).doc(
    "Whether a certificate that is replaced while the broker runs may carry another name."
)
SSL_ALLOW_SAN_CHANGES = keys.boolean("ssl.allow.san.changes", False, LOW, ACTED).doc(
    "Whether a certificate that is replaced while the broker runs may carry other alternative names."
)

# From a connection to a principal.

SSL_PRINCIPAL_MAPPING_RULES = keys.string("ssl.principal.mapping.rules", "DEFAULT", LOW, ACTED).doc(
    "Rules that turn the name in a client's certificate into a user name; the first that matches holds."
)
PRINCIPAL_BUILDER_CLASS = keys.class_name(
    "principal.builder.class",
    "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
    MEDIUM,
    ACTED,
    None,
    PER_BROKER,
).doc(
    "The class that derives the principal of a connection: Kafka's, which is the default, or one of your own, as "
    "python:module:Class; broker/security/principals.py has an example. Any other class refuses the start."
)

# Delegation tokens.

DELEGATION_TOKEN_SECRET_KEY = keys.password("delegation.token.secret.key", None, MEDIUM, ACTED).doc(
    "The secret by which delegation tokens are signed, the same on every broker; without it tokens are disabled."
)
DELEGATION_TOKEN_MAX_LIFETIME_MS = keys.long(
    "delegation.token.max.lifetime.ms", 604_800_000, MEDIUM, ACTED, at_least(1)
).doc("How long a delegation token can be renewed.")
DELEGATION_TOKEN_EXPIRY_TIME_MS = keys.long(
    "delegation.token.expiry.time.ms", 86_400_000, MEDIUM, ACTED, at_least(1)
).doc("How long a delegation token holds until it is renewed.")
DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS = keys.long(
    "delegation.token.expiry.check.interval.ms", 3_600_000, LOW, ACTED, at_least(1)
).doc("How often the broker looks for delegation tokens that have expired.")
