"""From the bytes of a request to the bytes of its answer: dispatch by API key and version, and a handler for each API.

`dispatch` decodes a request, calls the handler that the registry (broker.request) names, and encodes the answer.
`handlers/` has a file for each family of APIs, with the stem of its messages in protocol/messages. A handler
checks and translates; the work is done by the rooms that it calls: fetch, replica, coordinator, controller, metadata,
telemetry. Handlers never import each other.

Called by network (through startup, which hands it over). Errors become codes in broker.error_map.
"""
