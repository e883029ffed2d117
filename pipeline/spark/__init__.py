"""Log directories for Spark: `spark.read.format("barnabas")` and readStream, once `register` was called.

    from pipeline.spark import register
    register(spark)
    spark.read.format("barnabas").option("path", "/var/lib/kafka").option("subscribe", "orders").load()

Sessions of `pipeline.session` have it already. Importing this needs no PySpark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Registers the source with a session, and turns on the pushdown of filters, by which it skips segments.

    The number of tasks follows the session's current cores, which a session of Spark Connect does not report.
    """
    from pyspark.sql.utils import is_remote

    from barnabas.pipeline.spark.source import BarnabasDataSource, for_cores

    source = BarnabasDataSource if is_remote() else for_cores(spark.sparkContext.defaultParallelism)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(source)
