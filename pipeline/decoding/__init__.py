"""Decoding of values: JSON, Avro and Protobuf become columns, by a schema file or by a schema registry's wire format.

`DecodingSpec` specifies it, as text for executors and for an ingest's ledger; `decode_column` does it for a
column of values; a value that cannot be decoded gives a reason, never an exception. Nothing here knows Spark.
"""
