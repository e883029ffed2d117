"""What has to hold at the end of each scenario, however it went."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer

from tests.conformance.kafka_jars import BUILD
from tests.support.cluster.checker import check
from tests.support.cluster.history import At, History
from tests.support.cluster.load import consumer_settings, final_read, watermarks
from tests.support.cluster.nodes import Implementation
from tests.support.cluster.replicas import differences, findings
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import LIMIT_S, wait_for, wait_until

SHOWN: Final = 20
"""Anomalies in a failure."""
_numbers = count(1)


def fresh(name: str) -> str:
    """A name that no scenario of this run has used, for topics, groups and clients."""
    return f"{name}-{next(_numbers)}"


def wait_acknowledged(history: History, more: int, limit_s: float = LIMIT_S) -> None:
    """Until so many more records are acknowledged: that the cluster goes on."""
    wanted = history.acknowledged + more
    wait_for(f"{more} more records are acknowledged", lambda: history.acknowledged >= wanted, limit_s)


def assert_sound(rig: ClusterRig, history: History, partitions: Sequence[At]) -> None:
    """Everything is in sync, the history has no anomaly, and all replicas have the same bytes."""
    rig.wait_in_sync({at.topic for at in partitions})
    assert_no_anomaly(rig, history, partitions)
    assert_replicas_equal(rig, partitions)


def assert_no_anomaly(rig: ClusterRig, history: History, partitions: Sequence[At]) -> None:
    """Reads all to its end, and judges the history; one with anomalies is kept beside the nodes' logs."""
    final_read(history, rig.bootstrap, partitions)
    found = check(history)
    if not found:
        return
    kept = BUILD / "cluster" / f"{partitions[0].topic}-{time.time_ns()}"
    keep(rig, history, partitions, kept)
    shown = "\n".join(map(str, found[:SHOWN]))
    raise AssertionError(f"{len(found)} anomalies, the history and the replicas are in {kept}:\n{shown}")


def keep(rig: ClusterRig, history: History, partitions: Iterable[At], place: Path) -> None:
    """Copies what explains an anomaly to where no later run removes it."""
    place.mkdir(parents=True)
    history.save(place / "history.jsonl")
    (place / "report").write_text(rig.report())
    for node, broker in rig.brokers.items():
        for at in (*partitions, *(At("__transaction_state", number) for number in range(3))):
            directory = rig.partition_directory(node, at)
            if directory is not None:
                shutil.copytree(directory, place / f"node-{node}" / str(at))
        for log in (broker.files.server_log, broker.files.console):
            if log.exists():  # Barnabas has the console alone
                shutil.copy(log, place / f"node-{node}-{log.name}")


def assert_replicas_equal(rig: ClusterRig, partitions: Iterable[At]) -> None:
    """Byte by byte up to the high watermark, and without errors for `barnabas log verify`."""
    consumer = Consumer(consumer_settings(rig.bootstrap, "comparison", is_committed=False))
    lagging = {
        node: broker
        for node, broker in rig.brokers.items()
        if broker.implementation is Implementation.BARNABAS
    }
    try:
        for at in partitions:
            start, end = watermarks(consumer, at, time.monotonic() + LIMIT_S)
            nodes = rig.partition(at).replicas
            found = {node: rig.partition_directory(node, at) for node in nodes}
            directories = {node: path for node, path in found.items() if path is not None}
            assert directories.keys() == set(nodes), f"{at}: there are replicas at {sorted(directories)}"
            # Files of epochs may lag behind for a moment.
            wait_until(
                f"the replicas of {at} are equal",
                partial(differences, directories, end, start, lagging),
                20,
            )
            for directory in directories.values():
                assert findings(directory, is_live=True) == []
    finally:
        consumer.close()
