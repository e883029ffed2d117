"""Audit: log directories verified by many tasks at once, with what only matters over time.

`plan` says what there is to look at, `segment` looks at one segment, `partition` judges what its segments had to say,
`engines` run both, here or on Spark, and `audit` puts it together. Only `spark_engine` knows Spark.
"""
