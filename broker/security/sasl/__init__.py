"""SASL: how clients prove who they are, as state machines without I/O.

`authenticator` leads one connection through SaslHandshake and SaslAuthenticate (the initial login, and
re-authentication); `session` is what a login leaves behind. `server` has the seam between these and the mechanisms,
which are in modules of their own: `plain`, `scram`, `gssapi`, `oauthbearer` with `oauthbearer_settings` and `jwks`.
`listener` makes all of it from a listener's configuration.

Called by network, which owns sockets and timers, and by startup.
"""
