"""Metrics for Prometheus: the declaration of every family, and the sources of its values.

`families` declares each metric once (name, kind, labels, help), `sources` and the modules named after their subject
read values from probes (broker.probes) and from the parts of the broker, `prometheus` answers a scrape.

Called by telemetry, http and startup. No part that is measured imports this room.
"""
