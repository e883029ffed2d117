"""What bytes mean on the wire: messages, record batches, errors. No sockets, no files, no event loop.

`messages/` declares every message; `layout`, `reference`, `codec_program` and `codec_engine` turn a declaration into
bytes and back (`codec` is their entry point); `framing` cuts frames out of a stream; `records/` are record batches.
"""

if __name__ != "barnabas.protocol":  # from the root of a checkout; each module is to exist once
    raise ImportError(f"import barnabas.protocol instead of {__name__}")
