"""The event loop: sockets, dispatch, handlers, replicas, metadata and what an operator sees of them."""
