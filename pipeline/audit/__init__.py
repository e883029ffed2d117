"""Audit: log directories verified by many tasks at once, with what only matters over time.

`plan` lists the segments, `segment` examines one segment, `partition` judges a partition by its segments' reports,
`engines` run both, here or on Spark, and `audit` combines the results. Only `spark_engine` knows Spark.
"""
