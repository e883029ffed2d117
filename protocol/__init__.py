"""What bytes mean on the wire: messages, record batches, errors. No sockets, no files, no event loop."""
