"""One module for each family of APIs; the stems are those of protocol.messages. Handlers never import each other."""
