"""Certificates, TLS and logins, as clients and servers both need them: stores, contexts, names, JAAS, SASL of a client.

errors.py               the one error of this package: a setting that is wrong, by the name of its key
settings.py             the ssl.* keys of one listener or client, as they were given
der.py, certificates.py reads DER; what is in a certificate: subject, alternative names, expiry
pem.py, jks.py, pkcs12.py  the formats of stores
stores.py               from settings to a key with its chain, and to trusted certificates
cipher_suites.py        the names of cipher suites, IANA's and OpenSSL's
contexts.py             from stores to an SSLContext
distinguished_names.py  the name of a certificate's subject, as Java writes it
java_regex.py, mapping_rules.py  ssl.principal.mapping.rules
jaas.py                 login modules with their options
scram.py                the arithmetic of SCRAM
kerberos_options.py, kerberos_rules.py  the options of Krb5LoginModule; from Kerberos principals to names
gss_layer.py, kerberos.py  the messages of GSSAPI; keys, tickets and contexts, by the library gssapi
strict_json.py, json_web_keys.py, json_web_tokens.py  signed tokens of an identity provider
unsecured_tokens.py     tokens that are not signed
identity_provider.py    its keys and tokens, over HTTP or from a file
oauthbearer.py          the messages of OAUTHBEARER
token_settings.py       the names of OAUTHBEARER's properties and classes
sasl_client.py, scram_client.py, token_login.py  what a client needs to log in
client_settings.py      security.protocol with all that it needs, from a client's properties

broker, cli and pipeline call it. It imports nothing of ours: files of stores, bytes and decisions. identity_provider
alone opens connections. `cryptography`, PyJWT, `ssl` and `gssapi` are imported where a store or a token is read, a
context made or Kerberos configured, so that a plain broker has none of them.
"""

if __name__ != "barnabas.security":  # from the root of a checkout; each module must be loaded only once
    raise ImportError(f"import barnabas.security instead of {__name__}")
