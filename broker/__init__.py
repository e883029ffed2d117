"""The event loop: sockets, dispatch, handlers, replicas, metadata and what an operator sees of them."""

if __name__ != "barnabas.broker":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.broker instead of {__name__}")
