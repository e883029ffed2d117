"""What bytes mean on the wire: messages, record batches, errors. No sockets, no files, no event loop."""

if __name__ != "barnabas.protocol":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.protocol instead of {__name__}")
