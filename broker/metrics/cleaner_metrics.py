"""The metrics of compaction, as in Kafka's LogCleaner and LogCleanerManager, and the running cleanings."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.broker.metrics.families import CLEANER_MANAGER_PREFIX, CLEANER_PREFIX, CLEANING_PREFIX
from barnabas.broker.metrics.prometheus import Metrics

if TYPE_CHECKING:
    from barnabas.broker.compaction.scheduler import LogCleaner
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
        metrics.add_each(
            f"{CLEANER_MANAGER_PREFIX}_{metric}", lambda: log_manager.dirs, lambda it: (it.path,), count
        )
    metrics.add_each(
        f"{CLEANING_PREFIX}_progress_ratio",
        lambda: cleaner.running,
        lambda it: (it.log.topic, str(it.log.partition)),
        lambda it: it.fraction,
    )
    metrics.add_value(f"{CLEANING_PREFIX}_finished_total", lambda: last.cleanings)
