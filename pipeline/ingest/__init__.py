"""Ingests topics into tables, incrementally and exactly once: Spark's own Kafka connector in, Parquet or Delta Lake
out."""
