"""The HTTP port: metrics, health, compaction.

`server` accepts connections; `app`, `compaction` and `hosts` are imported with the first request, since the HTTP
modules of the standard library cost a start 30 ms. Called by startup.
"""
