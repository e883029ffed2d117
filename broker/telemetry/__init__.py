"""Metrics that clients push (KIP-714).

`client_metrics` decides which client pushes what, and checks each push; `otlp` reads the payload;
`client_metrics_store` keeps the newest values for /metrics, within bounds. Called by kafka_apis.handlers.telemetry and
startup.
"""
