"""The metrics of compaction, as in Kafka's LogCleaner and LogCleanerManager, and the running cleanings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from barnabas.broker.metrics.families import CLEANER_MANAGER_PREFIX, CLEANER_PREFIX, CLEANING_PREFIX
from barnabas.broker.metrics.prometheus import Metrics, Sample

if TYPE_CHECKING:
    from barnabas.broker.compaction.scheduler import LogCleaner
    from barnabas.storage.manager.log_dir import LogDir
    from barnabas.storage.manager.log_manager import LogManager


def add_cleaner(
    metrics: Metrics, cleaner: LogCleaner, log_manager: LogManager, now_ms: Callable[[], int]
) -> None:
    """`now_ms` is the cleaner's wall clock."""
    last, manager = cleaner.last, cleaner.manager
    for metric, read in {
        "deadthreadcount": lambda: last.dead_worker_count,
        "cleaner_recopy_percent": lambda: last.recopy_percent,
        "max_clean_time_secs": lambda: last.max_clean_time_secs,
        "max_buffer_utilization_percent": lambda: last.max_buffer_utilization_percent,
        "max_compaction_delay_secs": lambda: manager.pre_clean_stats.max_compaction_delay_ms // 1000,
    }.items():
        metrics.add_value(f"{CLEANER_PREFIX}_{metric}", read)
    metrics.add_value(
        f"{CLEANER_MANAGER_PREFIX}_max_dirty_percent", lambda: int(100 * manager.dirtiest_ratio)
    )
    metrics.add_value(
        f"{CLEANER_MANAGER_PREFIX}_time_since_last_run_ms", lambda: now_ms() - manager.last_run_ms
    )
    for metric, count in {
        "uncleanable_partitions_count": lambda directory: len(manager.uncleanable_partitions(directory)),
        "uncleanable_bytes": manager.uncleanable_bytes,
    }.items():
        metrics.add(f"{CLEANER_MANAGER_PREFIX}_{metric}", _each_directory(log_manager, count))
    metrics.add(f"{CLEANING_PREFIX}_progress_ratio", _progress(cleaner))
    metrics.add_value(f"{CLEANING_PREFIX}_finished_total", lambda: last.cleanings)


def _each_directory(
    log_manager: LogManager, count: Callable[[LogDir], int]
) -> Callable[[], Iterator[Sample]]:
    return lambda: (((directory.path,), count(directory)) for directory in log_manager.dirs)


def _progress(cleaner: LogCleaner) -> Callable[[], Iterator[Sample]]:
    return lambda: (
        ((cleaning.log.topic, str(cleaning.log.partition)), cleaning.fraction) for cleaning in cleaner.running
    )
