"""Sockets: listeners, connections, and their limits.

`socket_server` accepts connections within `connection_quotas`. A `connection` reads through a `transport`, has frames
handled in order (`in_flight`, `request_order`) and sends responses (`send_queue`). `request_memory` bounds the bytes of
requests in flight, `frame_buffers` reuses the memory of large ones, `connection_sweep` closes idle connections, and
`loop_pulse` notices when the event loop is held up. `listener_security` says how a listener is secured: where it asks
for TLS, `tls_transport` is the transport; where it asks for logins, `authentication` stands between a new connection
and its requests (with `authentication_memory` and `failure_delay`), and `sasl_requests` in front of the handler.
`failure_log` tells of those that were not let in.

Called by startup, which passes in the function that handles a request. It knows no handler.
"""
