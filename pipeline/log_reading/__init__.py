"""Reads log directories as Arrow record batches: by many readers at once, without a broker or beside a running one.

Nothing here knows Spark, and nothing here writes. docs/pipeline.md describes which records a reader gets and when.
"""
