"""The history by confluent-kafka's AdminClient."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import (
    ElectionType,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs do not export what it documents
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.conformance.handover import kafka_side
from tests.conformance.java_admin import JavaAdmin
from tests.conformance.parity.transcript import Transcript, Tree

LIMIT_S = 20.0
SPECS: Any = OffsetSpec
ANYTHING: Any = None


def run_history(transcript: Transcript, java: JavaAdmin) -> None:
    """Runs all steps and notes their answers."""
    admin: Any = AdminClient({"bootstrap.servers": transcript.place.bootstrap, "log_level": 0})

    def note(step: str, call: Callable[[], Tree]) -> None:
        transcript.note(f"confluent/{step}", call)

    note(
        "create",
        lambda: _outcome(
            admin.create_topics(
                [_compacted_topic("c-one"), NewTopic("c-two", 3), _compacted_topic("c-three")]
            )
        ),
    )
    note(
        "create rejected",
        lambda: _outcome(admin.create_topics([NewTopic("bad name", 1), NewTopic("c-one", 1)])),
    )
    note(
        "create validated",
        lambda: _outcome(admin.create_topics([NewTopic("c-tried", 1)], validate_only=True)),
    )
    more = [NewPartitions("c-one", 4), NewPartitions("c-two", 1), NewPartitions("nobody", 3)]
    note("partitions", lambda: _outcome(admin.create_partitions(more)))
    kafka_side.produce(transcript.place.bootstrap, "c-one", 20)
    for step, resource in _changes().items():
        note(f"alter {step}", lambda resource=resource: _outcome(admin.incremental_alter_configs([resource])))  # type: ignore[misc]
    old = ConfigResource(ResourceType.TOPIC, "c-two", set_config={"retention.ms": "4", "flush.ms": "5"})
    note("alter all", lambda: _outcome(admin.alter_configs([old])))
    for name, one in _bindings().items():
        note(f"acl {name}", lambda one=one: _outcome(admin.create_acls([one])))  # type: ignore[misc]
    users = [
        UserScramCredentialUpsertion(
            "carl", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 5000), b"secret", b"salt"
        ),
        UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512),
    ]
    note("scram", lambda: _outcome(admin.alter_user_scram_credentials(users)))
    low = [TopicPartition("c-one", 0, 7), TopicPartition("c-one", 1, 99)]
    note("delete records", lambda: _outcome(admin.delete_records(low)))
    note("elect", lambda: _elected(admin.elect_leaders(ElectionType.PREFERRED, low).result(LIMIT_S)))
    java.settle(transcript.place.bootstrap)
    _describe_all(admin, note)
    everything = AclBindingFilter(
        ResourceType.TOPIC,
        "c",
        ResourcePatternType.ANY,
        ANYTHING,
        ANYTHING,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    note("acls deleted", lambda: _sorted(_outcome(admin.delete_acls([everything]))))
    note("delete", lambda: _outcome(admin.delete_topics(["c-three", "nobody"])))
    note("create again", lambda: _outcome(admin.create_topics([NewTopic("c-three", 2)])))


def _describe_all(admin: Any, note: Callable[[str, Callable[[], Tree]], None]) -> None:
    note("list", lambda: _listed(admin))
    note(
        "cluster", lambda: _plain(admin.describe_cluster(include_authorized_operations=True).result(LIMIT_S))
    )
    names = TopicCollection(["c-one", "c-two", "nobody"])
    note("topics", lambda: _outcome(admin.describe_topics(names, include_authorized_operations=True)))
    for kind, name in (("TOPIC", "c-one"), ("TOPIC", "nobody"), ("BROKER", "1"), ("GROUP", "c-group")):
        resource = ConfigResource(ResourceType[kind], name)
        note(f"configs {kind} {name}", lambda resource=resource: _outcome(admin.describe_configs([resource])))  # type: ignore[misc]
    for spec in (SPECS.earliest(), SPECS.latest(), SPECS.max_timestamp()):
        wanted = {TopicPartition("c-one", 0): spec, TopicPartition("c-one", 1): spec}
        for isolation in IsolationLevel:
            note(
                f"offsets {type(spec).__name__} {spec._value} {isolation.name}",
                lambda wanted=wanted, isolation=isolation: _outcome(  # type: ignore[misc]
                    admin.list_offsets(wanted, isolation_level=isolation)
                ),
            )
    note("users", lambda: _outcome(admin.describe_user_scram_credentials(["carl", "nobody"])))
    note("all users", lambda: _plain(admin.describe_user_scram_credentials().result(LIMIT_S)))
    anything = AclBindingFilter(
        ResourceType.ANY,
        ANYTHING,
        ResourcePatternType.ANY,
        ANYTHING,
        ANYTHING,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    note("acls", lambda: sorted(map(repr, admin.describe_acls(anything).result(LIMIT_S))))


def _compacted_topic(name: str) -> NewTopic:
    return NewTopic(name, 2, 1, config={"cleanup.policy": "compact,delete", "retention.ms": "-1"})


def _changes() -> dict[str, ConfigResource]:
    def changed(
        kind: str, name: str, operation: AlterConfigOpType, key: str, value: str | None
    ) -> ConfigResource:
        entry = ConfigEntry(key, value, incremental_operation=operation)
        return ConfigResource(ResourceType[kind], name, incremental_configs=[entry])

    op = AlterConfigOpType
    return {
        "set": changed("TOPIC", "c-one", op.SET, "max.message.bytes", "5000000"),
        "delete": changed("TOPIC", "c-one", op.DELETE, "retention.ms", None),
        "subtract": changed("TOPIC", "c-one", op.SUBTRACT, "cleanup.policy", "compact"),
        "append": changed("TOPIC", "c-one", op.APPEND, "leader.replication.throttled.replicas", "0:1"),
        "rejected": changed("TOPIC", "c-one", op.SET, "no.such.key", "5"),
        "nobody": changed("TOPIC", "nobody", op.SET, "retention.ms", "5"),
        "broker": changed("BROKER", "1", op.SET, "log.cleaner.threads", "2"),
    }


def _bindings() -> dict[str, AclBinding]:
    def binding(
        kind: ResourceType, name: str, pattern: ResourcePatternType, operation: AclOperation
    ) -> AclBinding:
        return AclBinding(kind, name, pattern, "User:carl", "*", operation, AclPermissionType.ALLOW)

    return {
        "literal": binding(ResourceType.TOPIC, "c", ResourcePatternType.LITERAL, AclOperation.READ),
        "prefixed": binding(ResourceType.TOPIC, "c", ResourcePatternType.PREFIXED, AclOperation.WRITE),
        "group": binding(ResourceType.GROUP, "g", ResourcePatternType.LITERAL, AclOperation.ALL),
    }


# -- answers --


def _outcome(futures: Mapping[Any, Any]) -> Tree:
    """The answer or the error of each key of a request."""
    found = {}
    for key, future in futures.items():
        try:
            found[str(key)] = _plain(future.result(LIMIT_S))
        except KafkaException as error:
            found[str(key)] = _error(error.args[0])
    return found


def _sorted(answer: Tree) -> Tree:
    return {key: sorted(found, key=repr) for key, found in answer.items()}


def _elected(answer: Mapping[TopicPartition, KafkaError | None]) -> Tree:
    return {str(key): _error(error) if error else "ok" for key, error in answer.items()}


def _error(error: KafkaError) -> Tree:
    return {"error": error.name(), "message": error.str()}


def _plain(value: Any) -> Tree:
    """Objects of the client as trees of their attributes by name."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(one) for one in value]
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    held = {key: one for key, one in getattr(value, "__dict__", {}).items() if not key.startswith("_")}
    return {key: _plain(one) for key, one in held.items()} if held else str(value)


def _listed(admin: AdminClient) -> Tree:
    listed = admin.list_topics(timeout=LIMIT_S)
    return {
        "cluster": listed.cluster_id,
        "controller": listed.controller_id,
        "brokers": {key: f"{one.host}:{one.port}" for key, one in listed.brokers.items()},
        "topics": {
            name: [
                f"{one.id} {one.leader} {one.replicas} {one.isrs} {one.error}"
                for one in topic.partitions.values()
            ]
            for name, topic in sorted(listed.topics.items())
        },
    }
