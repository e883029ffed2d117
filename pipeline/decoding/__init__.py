"""What values mean: JSON, Avro and Protobuf become columns, by a schema file or by a schema registry's wire format.

`DecodingSpec` says how, in words that travel to executors and into an ingest's ledger; `decode_column` does it for a
column of values; a value that cannot be decoded is a reason, never an exception. Nothing here knows Spark.
"""
