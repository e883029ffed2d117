"""Log directories as Arrow record batches: for many readers at once, without a broker, beside one at work.

Nothing here knows Spark, and nothing here writes. See docs/pipeline.md for what a reader sees and when.
"""
