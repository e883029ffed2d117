"""The event loop: sockets, dispatch, handlers, replicas, coordinators, metadata, and the metrics of all these.

The rooms and their order stand in docs/ARCHITECTURE.md; `broker` holds the parts that a handler is given. Only cli
starts a broker (broker.startup).
"""

if __name__ != "barnabas.broker":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.broker instead of {__name__}")
