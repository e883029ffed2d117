"""Exports tables to topics: through Spark's Kafka connector at least once, or in transactions exactly once."""
