"""Records of __cluster_metadata: topics, partitions, configuration, quotas, features and transactions."""

from __future__ import annotations

from barnabas.protocol.schema import (
    Message,
    Struct,
    array,
    bool_,
    float64,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)
from barnabas.protocol.wire import Uuid


class TopicRecord(Message, api_key=2, versions="0", flexible="0+"):
    """A topic exists."""

    name: str = string()
    topic_id: Uuid = uuid()


class PartitionRecord(Message, api_key=3, versions="0-2", flexible="0+"):
    """A partition exists, with its replicas and leader."""

    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    replicas: list[int] = array(int32)
    isr: list[int] = array(int32)
    removing_replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32)
    leader: int = int32(default=-1)
    leader_recovery_state: int = int8(tag=0, tagged="0+")
    leader_epoch: int = int32(default=-1)
    partition_epoch: int = int32(default=-1)
    directories: list[Uuid] = array(uuid, versions="1+")
    eligible_leader_replicas: list[int] | None = array(
        int32, versions="2+", nullable="2+", default=None, tag=1, tagged="2+"
    )
    last_known_elr: list[int] | None = array(
        int32, versions="2+", nullable="2+", default=None, tag=2, tagged="2+"
    )


class ConfigRecord(Message, api_key=4, versions="0", flexible="0+"):
    """A configuration value; null deletes it."""

    resource_type: int = int8()
    resource_name: str = string()
    name: str = string()
    value: str | None = string(nullable="0+")


class PartitionChangeRecord(Message, api_key=5, versions="0-2", flexible="0+"):
    """Something about a partition has changed; absent fields have not."""

    partition_id: int = int32(default=-1)
    topic_id: Uuid = uuid()
    isr: list[int] | None = array(int32, nullable="0+", default=None, tag=0, tagged="0+")
    leader: int = int32(default=-2, tag=1, tagged="0+")
    replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=2, tagged="0+")
    removing_replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=3, tagged="0+")
    adding_replicas: list[int] | None = array(int32, nullable="0+", default=None, tag=4, tagged="0+")
    leader_recovery_state: int = int8(default=-1, tag=5, tagged="0+")
    directories: list[Uuid] | None = array(
        uuid, versions="1+", nullable="1+", default=None, tag=8, tagged="1+"
    )
    eligible_leader_replicas: list[int] | None = array(
        int32, versions="2+", nullable="2+", default=None, tag=6, tagged="2+"
    )
    last_known_elr: list[int] | None = array(
        int32, versions="2+", nullable="2+", default=None, tag=7, tagged="2+"
    )


class RemoveTopicRecord(Message, api_key=9, versions="0", flexible="0+"):
    """A topic is gone, with its partitions and configuration."""

    topic_id: Uuid = uuid()


class FeatureLevelRecord(Message, api_key=12, versions="0", flexible="0+"):
    """A feature is finalized at a level."""

    name: str = string()
    feature_level: int = int16()


class ClientQuotaRecord(Message, api_key=14, versions="0", flexible="0+"):
    """A quota of a client entity is set or removed."""

    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable="0+")

    entity: list[ClientQuotaRecord.EntityData] = array("EntityData")
    key: str = string()
    value: float = float64()
    remove: bool = bool_()


class ProducerIdsRecord(Message, api_key=15, versions="0", flexible="0+"):
    """Which producer ids have been given away, and to whom."""

    broker_id: int = int32()
    broker_epoch: int = int64(default=-1)
    next_producer_id: int = int64()


class NoOpRecord(Message, api_key=20, versions="0", flexible="0+"):
    """Nothing; keeps the offset of the metadata log moving."""


class ZkMigrationStateRecord(Message, api_key=21, versions="0", flexible="0+"):
    zk_migration_state: int = int8()


class BeginTransactionRecord(Message, api_key=23, versions="0", flexible="0+"):
    """Begins records that take effect together."""

    name: str | None = string(nullable="0+", default=None, tag=0, tagged="0+")


class EndTransactionRecord(Message, api_key=24, versions="0", flexible="0+"):
    """Ends records that take effect together."""


class AbortTransactionRecord(Message, api_key=25, versions="0", flexible="0+"):
    """The records since the beginning never took effect."""

    reason: str | None = string(nullable="0+", default=None, tag=0, tagged="0+")


class ClearElrRecord(Message, api_key=28, versions="0", flexible="0+"):
    """The eligible leader replicas of a topic, or of all topics, are void."""

    topic_name: str = string()
