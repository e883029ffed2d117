"""Audits of log directories: many tasks verify segments at once, and judge timestamps, sequences and keys.

`plan` lists the segments, `segment` examines one segment, `partition` judges a partition by its segments' reports,
`engines` run both, here or on Spark, and `audit` combines the results. Only `spark_engine` imports Spark.
"""
