"""Metrics of log directories and of the replicas that move between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.metrics.prometheus import Metrics, Sample
from barnabas.broker.replica.moves.log_dir_move import LogDirMove

if TYPE_CHECKING:
    from barnabas.storage.manager.log_dirs import LogDirs

CLIENT_ID: Final = "ReplicaAlterLogDirs"


def add_log_dirs(metrics: Metrics, log_dirs: LogDirs, moves: Callable[[], list[LogDirMove]]) -> None:
    """`moves` returns the running moves."""
    prefix = "kafka_log_logmanager"
    metrics.add_value(f"{prefix}_offlinelogdirectorycount", lambda: len(log_dirs.offline))
    metrics.add_value(f"{prefix}_cordonedlogdirectorycount", lambda: len(log_dirs.cordoned))

    def each(holds: Callable[[str], bool]) -> Callable[[], list[Sample]]:
        def source() -> list[Sample]:
            paths = [*(one.path for one in log_dirs), *log_dirs.offline]
            return [((path,), int(holds(path))) for path in paths]

        return source

    metrics.add(f"{prefix}_logdirectoryoffline", each(lambda path: path in log_dirs.offline))
    metrics.add(f"{prefix}_logdirectorycordoned", each(lambda path: path in log_dirs.cordoned))
    for metric, read in {
        "maxlag": lambda: max((move.lag for move in moves()), default=0),
        "failedpartitionscount": lambda: sum(move.is_failing for move in moves()),
    }.items():
        metrics.add(f"kafka_server_replicaalterlogdirsmanager_{metric}", _one(read))


def _one(read: Callable[[], float]) -> Callable[[], list[Sample]]:
    return lambda: [((CLIENT_ID,), read())]
