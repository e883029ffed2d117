"""A standalone cluster of Spark's on 127.0.0.1: a master and a worker, from PySpark's own package.

The worker starts executors in its own directories, as on another machine, so a relative path in a task finds nothing.
`Driver` is a process with a working directory, in which commands run one after the other.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, TypeVar

from tests.support.broker_process import ROOT, Output

CORES = 2
START_LIMIT_S = 180.0
STOP_LIMIT_S = 60.0
RUN_LIMIT_S = 540.0
MASTER_READY = re.compile(r"Starting Spark master at (spark://\S+)")
WORKER_READY = re.compile(r"Successfully registered with master")
QUICK_JAVA = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Nothing is compiled for a long life."""
CONF = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.executor.memory": "700m",
    "spark.executor.extraJavaOptions": " ".join(QUICK_JAVA),
    "spark.sql.shuffle.partitions": "2",
}
"""Of each application: small, and without a port for browsers."""

T = TypeVar("T")


class ClusterNotStartedError(Exception):
    """A process of the cluster ended, or was not ready in time; the text is its output."""


class Cluster:
    """One master and one worker, as long as the block lasts."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.url = ""
        """Of the master: spark://127.0.0.1:PORT."""
        self._processes: list[tuple[subprocess.Popen[str], Output]] = []

    def __enter__(self) -> Cluster:
        for name in ("conf", "master", "worker"):
            (self.directory / name).mkdir(parents=True)
        address = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        try:
            self.url = self._start("master", "master.Master", *address, ready=MASTER_READY)[1]
            size = ("--cores", str(CORES), "--memory", "2g", "--work-dir", str(self.directory / "worker"))
            self._start("worker", "worker.Worker", *address, *size, self.url, ready=WORKER_READY)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self, name: str, deployed: str, *arguments: str, ready: re.Pattern[str]) -> re.Match[str]:
        process = subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{deployed}", *arguments],
            cwd=self.directory / name,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        assert process.stdout is not None
        output = Output(process.stdout)
        self._processes.append((process, output))
        found = output.wait_for(ready, START_LIMIT_S)
        if found is None:
            raise ClusterNotStartedError(
                f"the {name} was not ready in {START_LIMIT_S:.0f} s (exit status {process.poll()}); it wrote:\n"
                f"{output.text}"
            )
        return found

    def environment(self) -> dict[str, str]:
        """The environment of drivers and processes of the cluster: no local Spark settings, and our packages on the
        path."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
        return inherited | {
            "SPARK_HOME": str(spark_home()),
            "SPARK_CONF_DIR": str(self.directory / "conf"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": " ".join(QUICK_JAVA),
            "SPARK_SUBMIT_OPTS": " ".join(QUICK_JAVA),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(ROOT),  # as if installed on the machines of the workers, too
        }

    def executors_output(self) -> str:
        """The executors' output so far."""
        files = sorted(self.directory.glob("worker/app-*/*/stderr"))
        return "\n".join(f"--- {path}\n{path.read_text(errors='replace')[-4000:]}" for path in files)

    def stop(self) -> None:
        """Stops the worker first, which ends its executors."""
        while self._processes:
            process, output = self._processes.pop()
            process.terminate()
            try:
                process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            output.join()


def spark_home() -> Path:
    """PySpark's package, which has all of Spark in it."""
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0])


class Ran(NamedTuple):
    """A command that has ended, with its output on both streams."""

    exit_code: int
    output: str


class Driver:
    """A process with its own working directory, in which drivers run, one at a time: Java starts once for all."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._cluster = cluster
        self._pool = ProcessPoolExecutor(1, get_context("spawn"))
        self.directory = directory
        self.run(_begin, cluster.url, str(directory), cluster.environment())

    def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Calls a function of a module in that process. Raises what it raises, and TimeoutError."""
        return self._pool.submit(function, *arguments).result(RUN_LIMIT_S)

    def command(self, *line: str) -> str:
        """The output of `barnabas pipeline LINE`, which has to succeed, on the cluster."""
        conf = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
        ran = self.run(_command, [*line, "--master", self._cluster.url, *conf])
        assert ran.exit_code == 0, f"{ran.output}\n{self._cluster.executors_output()}"
        return ran.output

    def close(self) -> None:
        """Ends the process, and Java with it."""
        self._pool.shutdown()


def _begin(url: str, directory: str, environment: dict[str, str]) -> None:
    """Starts Java with the jars of all commands on its class path; the first command uses this session."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environment)
    from barnabas.pipeline.session import session

    session("first", master=url, conf=CONF, connector=True, table=True)


def _command(line: list[str]) -> Ran:
    from click.testing import CliRunner

    from barnabas.pipeline.cli import pipeline

    result = CliRunner().invoke(pipeline, line)
    raised = result.exception
    trace = (
        ""
        if raised is None or isinstance(raised, SystemExit)
        else "".join(traceback.format_exception(raised))
    )
    return Ran(result.exit_code, result.output + trace)
