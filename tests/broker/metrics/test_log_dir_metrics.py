"""The metrics of log directories and of moves between them."""

from __future__ import annotations

import pytest

from barnabas.broker.metrics.log_dir_metrics import add_log_dirs
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.replica.moves import alter_log_dirs
from tests.broker.metrics.test_sources import value, values
from tests.broker.replica.moves.moving_node import MovingNode
from tests.storage.fault_env import FaultEnv


def test_directories_and_the_greatest_lag_of_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alter_log_dirs, "INLINE_BYTES", 0)
    node = MovingNode(FaultEnv())
    node.start()
    node.append(9)
    metrics = Metrics()
    add_log_dirs(metrics, node.log_manager.dirs, lambda: node.moves.moves)
    assert values(metrics, "kafka_server_replicaalterlogdirsmanager_maxlag") == {("ReplicaAlterLogDirs",): 0}
    node.move("/b")
    node.step()
    assert values(metrics, "kafka_server_replicaalterlogdirsmanager_maxlag") == {("ReplicaAlterLogDirs",): 9}
    assert values(metrics, "kafka_server_replicaalterlogdirsmanager_failedpartitionscount") == {
        ("ReplicaAlterLogDirs",): 0
    }
    node.log_manager.dirs.cordoned = frozenset({"/c"})
    assert value(metrics, "kafka_log_logmanager_cordonedlogdirectorycount") == 1
    assert value(metrics, "kafka_log_logmanager_offlinelogdirectorycount") == 0
    node.log_dir_failed("/b")
    assert value(metrics, "kafka_log_logmanager_offlinelogdirectorycount") == 1
    assert values(metrics, "kafka_log_logmanager_logdirectoryoffline") == {("/a",): 0, ("/b",): 1, ("/c",): 0}
    assert values(metrics, "kafka_log_logmanager_logdirectorycordoned") == {
        ("/a",): 0,
        ("/b",): 0,
        ("/c",): 1,
    }
