"""The data pipeline: Spark over the broker and over its log directories."""
