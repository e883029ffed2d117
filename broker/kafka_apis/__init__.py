"""From the bytes of a request to the bytes of its response: dispatch by API key and version, a handler for each API.

`dispatch` decodes a request, calls the handler that the registry (broker.request) names, and encodes the response.
`handlers/` has a file for each family of APIs, with the stem of its messages in protocol/messages. A handler
checks and translates; the rooms that it calls do the work: fetch, replica, coordinator, controller, metadata,
telemetry. Handlers never import each other.

Called by network (startup passes it over). Errors become codes in broker.error_map.
"""
