"""Creates Spark sessions for the jobs: on a laptop in this process, under spark-submit by its command line.

    spark = session("audit")                        # local[*]
    spark = session("ingest", connector=True, table=True)

A machine without PySpark or Java raises SparkMissingError, whose text is a sentence for the user.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.jars import JarsMissingError, bring
from barnabas.pipeline.versions import DELTA_TABLES, JAVA_AT_LEAST, KAFKA_CONNECTOR

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXIT_USAGE: Final = 2
"""The exit code of a command that lacks a requirement."""

ARROW_UNCHECKED: Final = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
"""Turns off Arrow's checks of bounds and nulls at each cell: they take a third of Spark's time for our rows."""

ARROW_BATCH_BYTES: Final = 64 * 2**20
"""The bytes of values that a Python worker decodes at a time. Spark's limit is 10,000 records of any size."""

_LOCAL: Final = {
    # Large records cost a third less than over a TCP connection between Spark and its Python workers.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.driver.extraJavaOptions": ARROW_UNCHECKED,
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
}
"""For a session whose tasks run in this process. A cluster has to reach the driver, and has settings of its own."""
_COMMAND: Final = {"spark.ui.showConsoleProgress": "false"}
"""For a session that spark-submit has not started: PySpark shows Spark's progress bars there, as in a shell."""
_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BATCH_BYTES),
}
_DELTA: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}


class SparkMissingError(Exception):
    """Spark cannot run here; the message is one sentence that says what to do."""


def session(
    name: str,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    connector: bool = False,
    table: bool = False,
) -> "SparkSession":
    """A session with the source `barnabas`, and with Spark's Kafka connector or Delta tables where they are asked for.

    `master` is local[*] unless it is given here, in `conf` or by spark-submit. Raises SparkMissingError.
    """
    check()
    wanted = (*(KAFKA_CONNECTOR if connector else ()), *(DELTA_TABLES if table else ()))
    try:
        jars = bring(wanted)
    except JarsMissingError as error:
        raise SparkMissingError(str(error)) from None
    from pyspark.sql import SparkSession

    from barnabas.pipeline.spark import register

    given = dict(conf or {})
    if not _is_submitted(os.environ):
        os.environ.setdefault(
            "PYSPARK_PYTHON", sys.executable
        )  # the tasks' Python needs the same packages as this one
    elif jars:
        given.setdefault("spark.jars", _reach_the_driver(jars))
    builder = SparkSession.builder.appName(name)
    for key, value in settings(os.environ, master=master, conf=given, jars=jars, table=table).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


def settings(
    environment: Mapping[str, str],
    *,
    master: str | None,
    conf: Mapping[str, str],
    jars: list[Path],
    table: bool,
) -> dict[str, str]:
    """The settings of a session; those of the caller and of spark-submit take precedence over the ones made here."""
    found = dict(_ALWAYS)
    if not _is_submitted(environment):
        where = conf.get("spark.master") or master or "local[*]"
        found |= {"spark.master": where, **_COMMAND, **(_LOCAL if where.startswith("local") else {})}
    elif master is not None:
        found["spark.master"] = master
    if table:
        found |= _DELTA
    found |= conf
    if jars:
        found["spark.jars"] = ",".join(
            (*filter(None, [found.get("spark.jars")]), *(path.as_uri() for path in jars))
        )
    return found


def _reach_the_driver(jars: list[Path]) -> str:
    """Loads jars into a driver that spark-submit has started already; returns the jars of its command line.

    Jars that a session names later reach its executors only.
    """
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for jar in jars:
        loader.addURL(jvm.java.net.URL(jar.as_uri()))
    return str(SparkConf().get("spark.jars", ""))


def _is_submitted(environment: Mapping[str, str]) -> bool:
    """Whether spark-submit has started this process, whose command line decides where everything runs."""
    return "SPARK_ENV_LOADED" in environment


def check() -> None:
    """Raises SparkMissingError unless PySpark and Java are there."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise SparkMissingError("the pipeline needs PySpark, which pip install 'barnabas[spark]' brings")
    java = _java()
    if java is None:
        raise SparkMissingError(
            f"Spark needs Java {JAVA_AT_LEAST} or newer, and there is no java on the path or in JAVA_HOME"
        )
    version = _java_version(java)
    if version < JAVA_AT_LEAST:
        raise SparkMissingError(f"Spark needs Java {JAVA_AT_LEAST} or newer, and {java} is Java {version}")


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if not home:
        return shutil.which("java")
    if not os.access(f"{home}/bin/java", os.X_OK):  # with JAVA_HOME set Spark's scripts look nowhere else
        raise SparkMissingError(
            f"Spark needs Java {JAVA_AT_LEAST} or newer, and JAVA_HOME is {home}, where there is no bin/java"
        )
    return f"{home}/bin/java"


def _java_version(java: str) -> int:
    """The major version of Java: 17 for "17.0.15", 8 for "1.8.0"; 0 when its output has no version."""
    ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(found[1]) if found else 0
