"""Our own keys for TLS and the login of the HTTP port; the others of that port are in barnabas.py.

They have the names of the keys of listeners, after `barnabas.http.`, and their meaning.
"""

from barnabas.config.catalogue.use import ACTED
from barnabas.config.keys import LOW, MEDIUM, KeySet
from barnabas.config.validators import OneOf

keys = KeySet()

BARNABAS_HTTP_SECURITY_PROTOCOL = keys.string(
    "barnabas.http.security.protocol",
    "PLAINTEXT",
    MEDIUM,
    ACTED,
    OneOf("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True),
).doc(
    "How the HTTP port is protected, in the words of listeners: with SSL and SASL_SSL it speaks HTTPS, with "
    "SASL_PLAINTEXT and SASL_SSL every page but /health/live and /health/ready asks for a user and a password (basic "
    "authentication)."
)
BARNABAS_HTTP_SASL_JAAS_CONFIG = keys.password("barnabas.http.sasl.jaas.config", None, MEDIUM, ACTED).doc(
    "The users of the HTTP port: org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_<name>="<password>";. They are users of this port alone.'
)
BARNABAS_HTTP_SSL_CLIENT_AUTH = keys.string(
    "barnabas.http.ssl.client.auth", "none", MEDIUM, ACTED, OneOf("required", "requested", "none")
).doc(
    "Whether clients of the HTTP port must show a certificate that the trust store vouches for: `required` stands for "
    "a login, also for health checks. ssl.client.auth does not hold for this port."
)
BARNABAS_HTTP_SSL_KEYSTORE_TYPE = keys.optional_string(
    "barnabas.http.ssl.keystore.type", None, MEDIUM, ACTED
).doc("The format of the key store: JKS, PKCS12 or PEM. Unset: ssl.keystore.type.")
BARNABAS_HTTP_SSL_KEYSTORE_LOCATION = keys.optional_string(
    "barnabas.http.ssl.keystore.location", None, MEDIUM, ACTED
).doc(
    "The file with the certificate and the private key of the HTTP port. Where no key for a key store of this port is "
    "set, those of all listeners count (ssl.keystore.*, ssl.key.password)."
)
BARNABAS_HTTP_SSL_KEYSTORE_PASSWORD = keys.password(
    "barnabas.http.ssl.keystore.password", None, MEDIUM, ACTED
).doc("The password of that key store; PEM files have none.")
BARNABAS_HTTP_SSL_KEY_PASSWORD = keys.password("barnabas.http.ssl.key.password", None, MEDIUM, ACTED).doc(
    "The password of the private key in it."
)
BARNABAS_HTTP_SSL_KEYSTORE_KEY = keys.password("barnabas.http.ssl.keystore.key", None, MEDIUM, ACTED).doc(
    "The private key of the HTTP port itself, as PEM."
)
BARNABAS_HTTP_SSL_KEYSTORE_CERTIFICATE_CHAIN = keys.password(
    "barnabas.http.ssl.keystore.certificate.chain", None, MEDIUM, ACTED
).doc("Its certificates themselves, as PEM.")
BARNABAS_HTTP_SSL_TRUSTSTORE_TYPE = keys.optional_string(
    "barnabas.http.ssl.truststore.type", None, MEDIUM, ACTED
).doc("The format of the trust store: JKS, PKCS12 or PEM. Unset: ssl.truststore.type.")
BARNABAS_HTTP_SSL_TRUSTSTORE_LOCATION = keys.optional_string(
    "barnabas.http.ssl.truststore.location", None, MEDIUM, ACTED
).doc(
    "The file with the certificates that vouch for clients of the HTTP port. Where no key for a trust store of this "
    "port is set, those of all listeners count (ssl.truststore.*)."
)
BARNABAS_HTTP_SSL_TRUSTSTORE_PASSWORD = keys.password(
    "barnabas.http.ssl.truststore.password", None, MEDIUM, ACTED
).doc("The password of that trust store; without it the store is read unchecked.")
BARNABAS_HTTP_SSL_TRUSTSTORE_CERTIFICATES = keys.password(
    "barnabas.http.ssl.truststore.certificates", None, MEDIUM, ACTED
).doc("The trusted certificates themselves, as PEM.")
BARNABAS_HTTP_SSL_PROTOCOL = keys.optional_string("barnabas.http.ssl.protocol", None, LOW, ACTED).doc(
    "The newest version of TLS that is spoken. Unset: ssl.protocol."
)
BARNABAS_HTTP_SSL_ENABLED_PROTOCOLS = keys.optional_string(
    "barnabas.http.ssl.enabled.protocols", None, LOW, ACTED
).doc("The versions of TLS that clients may speak. Unset: ssl.enabled.protocols.")
BARNABAS_HTTP_SSL_CIPHER_SUITES = keys.optional_string(
    "barnabas.http.ssl.cipher.suites", None, LOW, ACTED
).doc("The cipher suites that may be used. Unset: ssl.cipher.suites.")
