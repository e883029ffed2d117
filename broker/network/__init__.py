"""Sockets: listeners, connections, and their limits.

`socket_server` accepts connections within `connection_quotas`. A `connection` reads through a `transport`, has frames
handled in order (`in_flight`, `request_order`) and sends responses (`send_queue`). `request_memory` bounds the bytes of
requests in flight, `frame_buffers` reuses the memory of large ones, `connection_sweep` closes idle connections, and
`loop_pulse` notices when the event loop is held up.

Called by startup, which passes in the function that handles a request. It knows no handler.
"""
