"""Who may connect and what they may do: logins by SASL and TLS, the authorizer, delegation tokens.

`sasl` is how clients log in, `jaas_entries` finds the login modules of that in the configuration, `tls_listener` has
the certificates of a listener, `tokens` the secrets of delegation tokens, `hooks` loads classes of the operator's own,
and `principals` names clients by one. What clients need as well is in the package barnabas.security.

network calls the logins before it hands a connection's first request on; kafka_apis asks the authorizer. Nothing here
knows sockets: bytes and decisions only. What a listener does not ask for costs it nothing.
"""
