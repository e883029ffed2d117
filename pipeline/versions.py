"""The versions of Spark and its libraries that the pipeline is made for.

Jars come from Maven Central by these coordinates. `pyspark` in pyproject.toml is of the same version as `SPARK`
(a test holds the two together): the connector and the table format are made for it.
"""

from typing import Final

SPARK: Final = "4.2.0"
SCALA: Final = "2.13"
DELTA: Final = "4.4.0"
JAVA_AT_LEAST: Final = 17

KAFKA_CONNECTOR: Final = (
    f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{SPARK}",
    # Maven Central lacks this dependency of the connector in its version; it serves delegation tokens only.
    f"org.apache.spark:spark-token-provider-kafka-0-10_{SCALA}:4.0.0",
)
DELTA_TABLES: Final = (f"io.delta:delta-spark_4.2_{SCALA}:{DELTA}",)

BROUGHT_BY_PYSPARK: Final = (
    "org.apache.hadoop",
    "org.apache.parquet",
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.slf4j",
    "org.apache.logging.log4j",
    "com.fasterxml.jackson.core",
    "com.fasterxml.jackson.datatype",
    "com.fasterxml.jackson.module",
    "org.lz4",
    "org.xerial.snappy",
    "com.github.luben",
    "com.google.code.findbugs",
)
"""Groups whose jars Spark contains: a second version of one would conflict."""
