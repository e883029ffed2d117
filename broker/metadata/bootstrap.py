"""The first records of a cluster: its feature levels, in the file that a format writes.

`bootstrap.checkpoint` lies in every log directory that is formatted, and is read once: when the metadata log is empty
the controller copies its records there. Format: that of a snapshot (`snapshot_files`), in epoch 0, with timestamp 0.
Source: org.apache.kafka.metadata.bootstrap.BootstrapDirectory, BootstrapMetadata, ActivationRecordsGenerator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.broker.metadata.image import BROKER_RESOURCE
from barnabas.broker.metadata.records import frame
from barnabas.broker.metadata.snapshot_files import read_snapshot, snapshot_batches
from barnabas.broker.metadata.versions import (
    ELIGIBLE_LEADER_REPLICAS_VERSION,
    FEATURES,
    KRAFT_VERSION,
    LATEST_PRODUCTION,
    METADATA_TRANSACTIONS,
    METADATA_VERSION,
)
from barnabas.protocol.messages.topic_records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from barnabas.protocol.schema import Message
from barnabas.storage.env import Env, write_atomically

FILE_NAME: Final = "bootstrap.checkpoint"
_EPOCH: Final = 0
_TIMESTAMP_MS: Final = 0
_TRANSACTION_NAME: Final = "Bootstrap records"


def default_levels(metadata_version: int) -> dict[str, int]:
    """The levels that a cluster begins with under a metadata.version, that one included; kraft.version is not."""
    levels = {feature.name: feature.default_level(metadata_version) for feature in FEATURES}
    del levels[KRAFT_VERSION]
    return {METADATA_VERSION: metadata_version, **levels}


def bootstrap_records(levels: Mapping[str, int], others: Iterable[Message] = ()) -> list[Message]:
    """The records of the file: metadata.version, the other features above level 0, by name, then `others`."""
    names = sorted(name for name, level in levels.items() if level > 0 and name != KRAFT_VERSION)
    names.sort(key=lambda name: name != METADATA_VERSION)
    return [*(FeatureLevelRecord(name=name, feature_level=levels[name]) for name in names), *others]


def write_bootstrap(env: Env, log_dir: str, records: Sequence[Message]) -> None:
    """Replaces the file in a log directory; durable on return. Raises OSError."""
    batches = snapshot_batches(
        (frame(record, LATEST_PRODUCTION) for record in records),
        epoch=_EPOCH,
        timestamp_ms=_TIMESTAMP_MS,
        now_ms=env.now_ms(),
    )
    write_atomically(env, f"{log_dir}/{FILE_NAME}", b"".join(batches))


def read_bootstrap(env: Env, log_dir: str) -> list[Message]:
    """The records in the file of a log directory; without one the defaults of the newest metadata.version.

    Raises MetadataLogError for a file that is not whole, OSError.
    """
    path = f"{log_dir}/{FILE_NAME}"
    if not env.exists(path):
        return bootstrap_records(default_levels(LATEST_PRODUCTION))
    return read_snapshot(env, path).records


def first_records(bootstrap: Sequence[Message], min_insync_replicas: int) -> list[Message]:
    """The first batch of an empty metadata log, one transaction where the metadata.version has them.

    Eligible leader replicas depend on the cluster's min.insync.replicas, so the cluster has one from the beginning.
    """
    levels = {
        record.name: record.feature_level for record in bootstrap if isinstance(record, FeatureLevelRecord)
    }
    records = list(bootstrap)
    if levels.get(ELIGIBLE_LEADER_REPLICAS_VERSION, 0) > 0:
        records.append(default_min_insync_replicas(min_insync_replicas))
    if levels.get(METADATA_VERSION, 0) < METADATA_TRANSACTIONS:
        return records
    return [BeginTransactionRecord(name=_TRANSACTION_NAME), *records, EndTransactionRecord()]


def default_min_insync_replicas(count: int) -> ConfigRecord:
    """min.insync.replicas for the whole cluster."""
    return ConfigRecord(
        resource_type=BROKER_RESOURCE, resource_name="", name="min.insync.replicas", value=str(count)
    )
