"""A MetadataImage as the tree of Kafka's metadata shell, in the format of Kafka's own classes.

Left out: registrations of brokers and controllers beyond their number (tests check those one by one), and the names of
quotas' entities, which Kafka's own nodes do not distinguish.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from barnabas.broker.metadata.embedded_raft_log import EmbeddedRaftLog
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.protocol.messages.cluster_records import AccessControlEntryRecord, UserScramCredentialRecord
from barnabas.protocol.wire import uuid_to_string
from barnabas.storage.env import RealEnv

_RESOURCES = {2: "TOPIC", 4: "BROKER", 16: "CLIENT_METRICS", 32: "GROUP"}
_ACL_RESOURCES = {
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}
_PATTERNS = {3: "LITERAL", 4: "PREFIXED"}
_PERMISSIONS = {2: "DENY", 3: "ALLOW"}
_OPERATIONS = (
    *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS"),
)
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def image_of(log_dir: Path, node_id: int = 1) -> MetadataImage:
    """The image that our loader builds from the metadata log in a directory without a running broker."""
    log = EmbeddedRaftLog.open(RealEnv(), str(log_dir), node_id)
    image = MetadataImage.empty()
    try:
        for batch in log.load():
            image, _ = replayed(image, batch.records, offset=batch.last_offset, epoch=batch.epoch)
    finally:
        log.raft.close()
    return image


def tree_of(image: MetadataImage) -> dict[str, Any]:
    """The tree of an image."""
    topics = {
        topic.name: {
            "id": uuid_to_string(topic.topic_id),
            "name": topic.name,
            **{str(index): _partition(partition) for index, partition in topic.partitions.items()},
        }
        for topic in image.topics.values()
    }
    return {
        "acls": {"byId": {uuid_to_string(key): _acl(entry) for key, entry in image.acls.items()}},
        "clientQuotas": sorted(str(value) for limits in image.quotas.values() for value in limits.values()),
        "cluster": {
            "brokers": sorted(map(str, image.brokers)),
            "controllers": sorted(map(str, image.controllers)),
        },
        "configs": {_resource(*key): dict(entries) for key, entries in image.configs.items()},
        "delegationToken": dict.fromkeys(image.tokens),
        "features": {name: level for name, level in image.features.items() if name != "metadata.version"},
        "producerIds": image.next_producer_id,
        "scram": {
            name: {
                record.name: _credential(record)
                for (_, number), record in image.scram.items()
                if number == mechanism
            }
            for mechanism, name in _MECHANISMS.items()
        },
        "topics": {
            "byId": {topic["id"]: topic for topic in topics.values()},
            "byName": topics,
        },
    }


def comparable(kafka: dict[str, Any]) -> dict[str, Any]:
    """Kafka's tree, without the parts that are left out."""
    shown = dict(kafka)
    shown.pop("provenance")
    features = shown["features"]
    shown["features"] = {
        name.removeprefix("finalized_"): int(level)
        for name, level in features.items()
        if name.startswith("finalized_")
    }
    shown["cluster"] = {name: sorted(nodes) for name, nodes in shown["cluster"].items()}
    shown["producerIds"] = int(shown["producerIds"]["nextProducerId"])
    return shown


def _resource(kind: int, name: str) -> str:
    return f"{_RESOURCES[kind]}:{name}" if name else _RESOURCES[kind]


def _partition(one: PartitionImage) -> str:
    directories = ", ".join(map(uuid_to_string, one.directories))
    state = "RECOVERING" if one.leader_recovery_state else "RECOVERED"
    return (
        f"PartitionRegistration(replicas={_list(one.replicas)}, directories=[{directories}], isr={_list(one.isr)}, "
        f"removingReplicas={_list(one.removing_replicas)}, addingReplicas={_list(one.adding_replicas)}, "
        f"elr={_list(one.elr)}, lastKnownElr={_list(one.last_known_elr)}, leader={one.leader}, "
        f"leaderRecoveryState={state}, leaderEpoch={one.leader_epoch}, partitionEpoch={one.partition_epoch})"
    )


def _list(nodes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, nodes))}]"


def _acl(entry: AccessControlEntryRecord) -> str:
    return (
        f"StandardAcl[resourceType={_ACL_RESOURCES[entry.resource_type]}, resourceName={entry.resource_name}, "
        f"patternType={_PATTERNS[entry.pattern_type]}, principal={entry.principal}, host={entry.host}, "
        f"operation={_OPERATIONS[entry.operation]}, permissionType={_PERMISSIONS[entry.permission_type]}]"
    )


def _credential(record: UserScramCredentialRecord) -> str:
    return (
        f"ScramCredentialData(salt={record.salt.hex()}, storedKey={record.stored_key.hex()}, "
        f"serverKey={record.server_key.hex()}, iterations={record.iterations})"
    )
