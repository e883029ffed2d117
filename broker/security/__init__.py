"""Who may connect and what they may do: logins by SASL and TLS, the authorizer, delegation tokens.

`sasl` is how clients log in, `jaas` the configuration of that in Java's form, and `hooks` loads classes of the
operator's own.

network calls the logins before it hands a connection's first request on; kafka_apis asks the authorizer. Nothing here
knows sockets: bytes and decisions only. What a listener does not ask for costs it nothing.
"""
