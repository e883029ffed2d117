"""The history by kafka-python's KafkaAdminClient."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tests.conformance.handover import kafka_side
from tests.conformance.java_admin import JavaAdmin
from tests.conformance.parity.differences import without_error_messages
from tests.conformance.parity.transcript import Transcript, Tree
from tests.interop.clients.kafka_python import KafkaAdminClient, TopicPartition

with warnings.catch_warnings():
    # It loads its message definitions with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.admin import (
        ACL,
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ConfigResource,
        ConfigResourceType,
        NewTopic,
        OffsetSpec,
        ResourcePattern,
        ResourcePatternFilter,
        ResourceType,
        ScramMechanism,
        UserScramCredentialDeletion,
        UserScramCredentialUpsertion,
    )

Note = Callable[[str, Callable[[], Any]], None]


def run_history(transcript: Transcript, java: JavaAdmin) -> None:
    """Runs all steps and notes their answers."""
    admin = KafkaAdminClient(bootstrap_servers=transcript.place.bootstrap, request_timeout_ms=20_000)

    def note(step: str, call: Callable[[], Any]) -> None:
        transcript.note(f"kafka-python/{step}", lambda: _plain(call()))

    try:
        _topics(admin, note)
        java.settle(transcript.place.bootstrap)
        _leaders(admin, note)
        kafka_side.produce(transcript.place.bootstrap, "k-one", 20)
        _settings(admin, note)
        _entities(admin, note)
        _data(admin, note, transcript.place.data)
        java.settle(transcript.place.bootstrap)
        _descriptions(admin, note)
        note("delete", lambda: admin.delete_topics(["k-three", "nobody"], raise_errors=False))
        note("create again", lambda: admin.create_topics([NewTopic("k-three", 2, 1)]))
    finally:
        admin.close()


def _topics(admin: KafkaAdminClient, note: Note) -> None:
    odd = {"cleanup.policy": "compact,delete", "retention.ms": "-1"}
    new = [NewTopic("k-one", 2, 1, topic_configs=odd), NewTopic("k-two"), NewTopic("k-three", 1, 1)]
    note("create", lambda: admin.create_topics(new))
    bad = [NewTopic("bad name", 1, 1), NewTopic("k-one", 1, 1), NewTopic("k-bad", 1, 5)]
    note("create rejected", lambda: admin.create_topics(bad, raise_errors=False))
    note("create validated", lambda: admin.create_topics([NewTopic("k-tried", 1, 1)], validate_only=True))
    assigned = [NewTopic("k-assigned", replica_assignments={0: [1], 1: [1]})]
    note("create assigned", lambda: admin.create_topics(assigned))
    note("partitions", lambda: admin.create_partitions({"k-one": 4}))
    more = {"k-two": {"count": 3, "assignments": [[1], [1]]}, "nobody": 3, "k-three": 1}
    note("partitions rejected", lambda: admin.create_partitions(more, raise_errors=False))


def _leaders(admin: KafkaAdminClient, note: Note) -> None:
    note("elect", lambda: admin.elect_leaders(0, {"k-one": [0, 9]}, raise_errors=False))
    note("elect all", lambda: admin.elect_leaders(0, raise_errors=False))
    moves = {
        TopicPartition("k-one", 0): [1],
        TopicPartition("k-one", 1): [5],
        TopicPartition("k-one", 2): None,
    }
    note("reassign", lambda: admin.alter_partition_reassignments(moves))
    note("reassignments", admin.list_partition_reassignments)


def _settings(admin: KafkaAdminClient, note: Note) -> None:
    for kind, name, configs in (
        ("TOPIC", "k-one", {"retention.ms": ("DELETE", None), "flush.ms": ("SET", "9")}),
        ("TOPIC", "k-one", {"cleanup.policy": ("SUBTRACT", "compact")}),
        ("TOPIC", "k-two", {"leader.replication.throttled.replicas": ("APPEND", "0:1")}),
        ("TOPIC", "k-two", {"no.such.key": "1"}),
        ("TOPIC", "nobody", {"retention.ms": "1"}),
        ("BROKER", "1", {"log.cleaner.threads": "2"}),
        ("GROUP", "k-group", {"consumer.heartbeat.interval.ms": "6000"}),
        ("CLIENT_METRICS", "k-metrics", {"interval.ms": "10000", "match": "client_id=.*"}),
    ):
        resource = ConfigResource(ConfigResourceType[kind], name, configs)
        change = admin.alter_configs
        step = f"alter {kind} {name} {' '.join(configs)}"
        note(step, lambda change=change, resource=resource: change([resource], raise_on_unknown=False))  # type: ignore[misc]
    whole = ConfigResource(ConfigResourceType.TOPIC, "k-three", {"retention.ms": "123"})
    note("alter all", lambda: admin.alter_configs([whole], incremental=False))
    reset = ConfigResource(ConfigResourceType.TOPIC, "k-one", {"flush.ms": None})
    note("reset", lambda: admin.reset_configs([reset]))
    for level in (1, 2):
        kind = "SAFE_DOWNGRADE" if level == 1 else "UPGRADE"
        update = {"transaction.version": (kind, level)}
        note(f"feature {level}", lambda update=update: admin.update_features(update))  # type: ignore[misc]
    note("feature rejected", lambda: admin.update_features({"share.version": ("UPGRADE", 9)}))


def _entities(admin: KafkaAdminClient, note: Note) -> None:
    new = [
        ACL(
            f"User:{name}",
            "*",
            ACLOperation.READ,
            ACLPermissionType.ALLOW,
            ResourcePattern(ResourceType.TOPIC, "k", pattern),
        )
        for name, pattern in (
            ("lit", ACLResourcePatternType.LITERAL),
            ("pre", ACLResourcePatternType.PREFIXED),
        )
    ]
    note("acls made", lambda: admin.create_acls(new))
    anything = _acl_filter(ACLResourcePatternType.ANY)
    note("acls", lambda: admin.describe_acls(anything))
    note("acls deleted", lambda: admin.delete_acls([_acl_filter(ACLResourcePatternType.PREFIXED)]))
    note("acls left", lambda: admin.describe_acls(anything))
    changes = [
        UserScramCredentialUpsertion("kai", ScramMechanism.SCRAM_SHA_512, "secret", 4100, b"salt"),
        UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_256),
    ]
    note("users changed", lambda: admin.alter_user_scram_credentials(changes))
    note("users", lambda: admin.describe_user_scram_credentials(["kai"]))
    note("users unknown", lambda: admin.describe_user_scram_credentials(["nobody"]))


def _acl_filter(pattern: ACLResourcePatternType) -> ACLFilter:
    return ACLFilter(
        None,
        None,
        ACLOperation.ANY,
        ACLPermissionType.ANY,
        ResourcePatternFilter(ResourceType.TOPIC, "k", pattern),
    )


def _data(admin: KafkaAdminClient, note: Note, directory: str) -> None:
    note("delete records", lambda: admin.delete_records({TopicPartition("k-one", 0): 5}))
    note("delete too many", lambda: admin.delete_records({TopicPartition("k-one", 0): 500}))
    note(
        "move",
        lambda: admin.alter_replica_log_dirs({("k-one", 0, 1): directory, ("k-one", 1, 1): "/no/such"}),
    )
    for spec in OffsetSpec:
        wanted = {TopicPartition("k-one", 0): spec}
        note(f"offsets {spec.name}", lambda wanted=wanted: admin.list_partition_offsets(wanted))  # type: ignore[misc]
    note("producers", lambda: admin.describe_producers([TopicPartition("k-one", 0)]))


def _descriptions(admin: KafkaAdminClient, note: Note) -> None:
    note("list", lambda: sorted(admin.list_topics()))
    note("cluster", admin.describe_cluster)
    note("topics", lambda: admin.describe_topics(["k-one", "k-two", "k-assigned"]))
    note("topic unknown", lambda: admin.describe_topics(["nobody"]))
    note("topic partitions", lambda: admin.describe_topic_partitions(["k-one", "k-two"]))
    note("config resources", admin.list_config_resources)
    for kind, name in (
        ("TOPIC", "k-one"),
        ("BROKER", "1"),
        ("GROUP", "k-group"),
        ("CLIENT_METRICS", "k-metrics"),
    ):
        resource = ConfigResource(ConfigResourceType[kind], name)
        note(
            f"configs {kind} {name}",
            lambda resource=resource: admin.describe_configs(
                [resource], include_synonyms=True, config_filter="all"
            ),  # type: ignore[misc]
        )
    note("features", lambda: _without_epoch(admin.describe_features()))
    note("quorum", lambda: _without_offsets(admin.describe_metadata_quorum()))
    note("log dirs", lambda: _without_sizes(admin.describe_log_dirs()))


def _without_epoch(features: Tree) -> Tree:
    """Features without their epoch, which is an offset of the metadata log."""
    return _dropping(features, {"finalized_epoch"})


def _without_offsets(quorum: Tree) -> Tree:
    return _dropping(quorum, {"high_watermark", "log_end_offset", "leader_epoch"})


def _without_sizes(dirs: Tree) -> Tree:
    return _dropping(dirs, {"total_bytes", "usable_bytes"})


def _dropping(value: Any, names: set[str]) -> Any:
    plain = _plain(value)
    if isinstance(plain, dict):
        return {key: _dropping(one, names) for key, one in plain.items() if key not in names}
    return [_dropping(one, names) for one in plain] if isinstance(plain, list) else plain


def _plain(value: Any) -> Tree:
    """Objects of the client as trees, with unordered collections sorted."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return sorted((_plain(one) for one in value), key=lambda one: repr(without_error_messages(one)))
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, type):
        return value.__name__
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    held = {key: one for key, one in getattr(value, "__dict__", {}).items() if not key.startswith("_")}
    return {key: _plain(one) for key, one in held.items()} if held else str(value)
