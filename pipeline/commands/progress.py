"""Progress bars of long jobs, on a terminal only. They go to stderr, so that results can be piped."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress

POLL_S: Final = 0.3


@contextmanager
def bytes_read(total: int) -> Iterator[Callable[[int], None]]:
    """A bar for work in this process, which reports the bytes that it has read."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn

    with _bar(BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()) as bar:
        task = bar.add_task("", total=total)
        yield lambda read: bar.update(task, advance=read)


@contextmanager
def spark_tasks(spark: SparkSession) -> Iterator[None]:
    """A bar for Spark's jobs: the finished tasks of the running stages."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

    ended = threading.Event()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with _bar(*columns) as bar:
        task = bar.add_task("waiting for Spark", total=None)

        def watch() -> None:
            while not ended.wait(POLL_S):
                done, total, stage = _stages(spark)
                if total:
                    bar.update(task, completed=done, total=total, description=f"stage {stage}")

        watcher = threading.Thread(target=watch, name="progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()


def _stages(spark: SparkSession) -> tuple[int, int, int]:
    """Tasks done, tasks in all, and the newest number, of the stages that run now."""
    tracker = spark.sparkContext.statusTracker()
    found = [
        info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage)) is not None
    ]
    newest = max((info.stageId for info in found), default=0)
    return sum(info.numCompletedTasks for info in found), sum(info.numTasks for info in found), newest


def _bar(*columns: object) -> Progress:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)  # type: ignore[arg-type]
