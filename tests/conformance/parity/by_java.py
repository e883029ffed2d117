"""The history by Kafka's Java AdminClient: valid and rejected requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.handover import kafka_side
from tests.conformance.handover.history import ODD_CONFIGS, ODD_NAMES
from tests.conformance.java_admin import JavaAdmin
from tests.conformance.parity.transcript import Transcript

Step = tuple[str, str, dict[str, Any]]


def run_history(transcript: Transcript, java: JavaAdmin) -> None:
    """Runs all steps and notes their answers."""
    bootstrap = transcript.place.bootstrap

    def run(step: str, do: str, more: dict[str, Any]) -> None:
        transcript.note(f"java/{step}", lambda: java.request(bootstrap, do, **more))

    for one in (*topics(), *partitions(), *alterations(), *quotas(), *users(), *acls()):
        run(*one)
    java.settle(bootstrap)
    for one in described():
        run(*one)
    for name in ("odd-1", "records", "compacted"):
        kafka_side.produce(bootstrap, name, 40)
    for one in (*data(transcript.place.data), *features(), *cluster(), *deletions()):
        run(*one)
    java.settle(bootstrap)
    transcript.note("java/everything", lambda: everything(java, bootstrap))


def everything(java: JavaAdmin, bootstrap: str) -> dict[str, Any]:
    """All that the client can describe, without groups and transactions."""
    shown = java.describe(
        bootstrap,
        *("cluster", "features", "quorum", "topics", "configs", "quotas", "scram", "acls"),
        *("logDirs", "offsets", "producers", "reassignments", "committed"),
    )
    for name in ("highWatermark", "epoch"):
        assert shown["quorum"].pop(name) > 0
    assert shown["features"].pop("epoch") > 0
    shown["committed"] = {key: text.rpartition(" ")[0] for key, text in shown["committed"].items()}
    return shown


def topics() -> Iterator[Step]:
    """CreateTopics."""
    yield (
        "create",
        "createTopics",
        {
            "topics": {
                **{
                    f"odd-{number}": {"partitions": 2, "configs": odd}
                    for number, odd in enumerate(ODD_CONFIGS)
                },
                **{name: {} for name in ODD_NAMES},
                "records": {"partitions": 1, "replicas": 1},
                "compacted": {"partitions": 1, "configs": {"cleanup.policy": "compact"}},
                "assigned": {"assignments": {"0": [1], "1": [1]}},
                "dotted.name": {},
                "mended": {"configs": {"segment.bytes": "1048576"}},
            }
        },
    )
    rejected: dict[str, dict[str, Any]] = {
        "odd-1": {},
        "dotted_name": {},
        "bad name": {},
        "": {},
        ".": {},
        "..": {},
        "y" * 250: {},
        "größe": {},
        "__cluster_metadata": {},
        "zero": {"partitions": 0},
        "negative": {"partitions": -3},
        "two-replicas": {"partitions": 1, "replicas": 2},
        "no-replica": {"partitions": 1, "replicas": 0},
        "many": {"partitions": 10_001},
        "unknown-key": {"configs": {"no.such.key": "1"}},
        "bad-number": {"configs": {"retention.ms": "soon"}},
        "bad-range": {"configs": {"min.cleanable.dirty.ratio": "2"}},
        "bad-policy": {"configs": {"cleanup.policy": "shred"}},
        "bad-codec": {"configs": {"compression.type": "rar"}},
        "small-segment": {"configs": {"segment.bytes": "10"}},
        "null-value": {"configs": {"retention.ms": None}},
        "tiered": {"configs": {"remote.storage.enable": "true"}},
        "throttled": {"configs": {"leader.replication.throttled.replicas": "all"}},
        "gap": {"assignments": {"0": [1], "2": [1]}},
        "unknown-broker": {"assignments": {"0": [7]}},
        "doubled-replica": {"assignments": {"0": [1, 1]}},
        "empty-replicas": {"assignments": {"0": []}},
    }
    for name, topic in rejected.items():
        yield f"create rejected {name[:20]}", "createTopics", {"topics": {name: topic}}
    tried = {"tried": {"partitions": 3, "configs": {"retention.ms": "5"}}, "odd-1": {}}
    yield "create validated", "createTopics", {"validateOnly": True, "topics": tried}
    mixed = {"good": {}, "bad name": {}, "worse": {"configs": {"x": "y"}}}
    yield "create mixed", "createTopics", {"topics": mixed}


def partitions() -> Iterator[Step]:
    """CreatePartitions, elections, reassignments."""
    for name, topic in {
        "more": {"count": 4},
        "assigned": {"count": 5, "assignments": [[1]]},
    }.items():
        yield (
            f"partitions {name}",
            "createPartitions",
            {"topics": {"odd-1" if name == "more" else "odd-2": topic}},
        )
    fits = {"count": 3, "assignments": [[1]]}
    yield "partitions assigned as many", "createPartitions", {"topics": {"odd-2": fits}}
    yield "partitions tried", "createPartitions", {"validateOnly": True, "topics": {"odd-1": {"count": 9}}}
    for name, topic in {
        "same": {"count": 4},
        "fewer": {"count": 1},
        "none": {"count": 0},
        "negative": {"count": -1},
        "unknown broker": {"count": 5, "assignments": [[9]]},
        "two replicas": {"count": 5, "assignments": [[1, 1]]},
        "no replica": {"count": 5, "assignments": [[]]},
    }.items():
        yield f"partitions rejected {name}", "createPartitions", {"topics": {"odd-1": topic}}
    yield "partitions rejected unknown topic", "createPartitions", {"topics": {"nobody": {"count": 2}}}
    yield "elect all", "electLeaders", {}
    yield "elect some", "electLeaders", {"partitions": ["odd-1-0", "nobody-0", "odd-1-77"]}
    yield "elect unclean", "electLeaders", {"type": "UNCLEAN", "partitions": ["odd-1-0"]}
    for name, replicas in {"same": [1], "unknown": [2], "two": [1, 2], "doubled": [1, 1]}.items():
        yield f"reassign {name}", "reassign", {"partitions": {"odd-1-0": replicas}}
    yield "reassign cancel", "reassign", {"partitions": {"odd-1-0": None}}
    yield "reassign nobody", "reassign", {"partitions": {"nobody-0": [1], "odd-1-99": [1]}}


def _ops(kind: str, name: str, *ops: tuple[str, str, str | None]) -> dict[str, Any]:
    return {"type": kind, "name": name, "ops": [list(op) for op in ops]}


def alterations() -> Iterator[Step]:
    """IncrementalAlterConfigs of all kinds of resources."""
    good = [
        _ops("TOPIC", "mended", ("SET", "retention.ms", "1000000"), ("DELETE", "segment.bytes", "")),
        _ops("TOPIC", "odd-4", ("APPEND", "leader.replication.throttled.replicas", "5:1")),
        _ops("TOPIC", "odd-2", ("SUBTRACT", "cleanup.policy", "delete")),
        _ops(
            "BROKER",
            "1",
            ("SET", "log.cleaner.threads", "2"),
            ("SET", "leader.replication.throttled.rate", "9000000"),
        ),
        _ops("BROKER", "", ("SET", "message.max.bytes", "2000000"), ("SET", "log.retention.ms", "800000000")),
        _ops(
            "CLIENT_METRICS",
            "telemetry",
            ("SET", "metrics", "org.apache.kafka.,x"),
            ("SET", "interval.ms", "30000"),
        ),
        _ops("GROUP", "team", ("SET", "consumer.session.timeout.ms", "50000")),
        _ops("GROUP", "shared", ("SET", "share.auto.offset.reset", "earliest")),
    ]
    yield "alter", "alterConfigs", {"resources": good}
    rejected: dict[str, dict[str, Any]] = {
        "unknown key": _ops("TOPIC", "mended", ("SET", "no.such.key", "1")),
        "bad value": _ops("TOPIC", "mended", ("SET", "retention.ms", "soon")),
        "delete unset": _ops("TOPIC", "mended", ("DELETE", "flush.ms", "")),
        "delete unknown": _ops("TOPIC", "mended", ("DELETE", "no.such.key", "")),
        "append number": _ops("TOPIC", "mended", ("APPEND", "retention.ms", "1")),
        "twice": _ops("TOPIC", "mended", ("SET", "retention.ms", "1"), ("DELETE", "retention.ms", "")),
        "unknown topic": _ops("TOPIC", "nobody", ("SET", "retention.ms", "1")),
        "empty list": _ops("TOPIC", "odd-2", ("SET", "cleanup.policy", "")),
        "read-only": _ops("BROKER", "1", ("SET", "node.id", "2")),
        "read-only at the default": _ops("BROKER", "", ("SET", "log.dirs", "/x")),
        "not of the cluster": _ops("BROKER", "", ("SET", "listener.name.x.ssl.keystore.location", "/x")),
        "broker bad value": _ops("BROKER", "1", ("SET", "log.cleaner.threads", "-1")),
        "too many threads": _ops("BROKER", "1", ("SET", "num.io.threads", "100")),
        "unknown at broker": _ops("BROKER", "1", ("SET", "my.own.key", "1")),
        "metrics interval": _ops("CLIENT_METRICS", "m", ("SET", "interval.ms", "1")),
        "metrics match": _ops("CLIENT_METRICS", "m", ("SET", "match", "colour=red")),
        "metrics key": _ops("CLIENT_METRICS", "m", ("SET", "x", "y")),
        "metrics name": _ops("CLIENT_METRICS", "", ("SET", "interval.ms", "60000")),
        "group key": _ops("GROUP", "team", ("SET", "x", "y")),
        "group range": _ops("GROUP", "team", ("SET", "consumer.session.timeout.ms", "1")),
        "group name": _ops("GROUP", "", ("SET", "consumer.session.timeout.ms", "45000")),
        "logger level": _ops("BROKER_LOGGER", "1", ("SET", "root", "LOUD")),
        "logger append": _ops("BROKER_LOGGER", "1", ("APPEND", "root", "INFO")),
        "logger unknown": _ops("BROKER_LOGGER", "1", ("SET", "no.such.logger", "INFO")),
        "root deleted": _ops("BROKER_LOGGER", "1", ("DELETE", "root", "")),
    }
    for name, resource in rejected.items():
        yield f"alter rejected {name}", "alterConfigs", {"resources": [resource]}
    tried = [
        _ops("TOPIC", "mended", ("SET", "retention.ms", "7")),
        _ops("BROKER", "", ("SET", "log.retention.ms", "7")),
    ]
    yield "alter tried", "alterConfigs", {"validateOnly": True, "resources": tried}


def described() -> Iterator[Step]:
    """DescribeConfigs of existing and of unknown resources."""
    resources = [
        {"type": kind, "name": name}
        for kind, name in (
            *(("TOPIC", name) for name in ("mended", "odd-2", "odd-4", "nobody", "bad name")),
            *(("BROKER", name) for name in ("1", "")),
            *(("GROUP", name) for name in ("team", "shared", "nobody")),
            *(("CLIENT_METRICS", name) for name in ("telemetry", "nobody")),
            *(("BROKER_LOGGER", name) for name in ("1",)),
        )
    ]
    for resource in resources:
        step = f"describe configs {resource['type']} {resource['name']}"
        yield step, "describeConfigs", {"resources": [resource]}
    yield "list config resources", "listConfigResources", {}


def quotas() -> Iterator[Step]:
    """AlterClientQuotas."""
    entities: dict[str, tuple[dict[str, str | None], dict[str, float | None]]] = {
        "user": ({"user": "ann"}, {"producer_byte_rate": 1e9, "consumer_byte_rate": 2e9}),
        "default user": ({"user": None}, {"request_percentage": 900.5}),
        "client": ({"client-id": "app"}, {"controller_mutation_rate": 1e6}),
        "default client": ({"client-id": None}, {"producer_byte_rate": 3e9}),
        "both": ({"user": "ann", "client-id": None}, {"producer_byte_rate": 4e9}),
        "ip": ({"ip": "10.1.2.3"}, {"connection_creation_rate": 500}),
        "default ip": ({"ip": None}, {"connection_creation_rate": 5000}),
        "host name": ({"ip": "localhost"}, {"connection_creation_rate": 5000}),
        "rejected host": ({"ip": "no such host"}, {"connection_creation_rate": 5}),
        "rejected ip key": ({"ip": "10.1.2.3"}, {"producer_byte_rate": 5}),
        "rejected user key": ({"user": "ann"}, {"connection_creation_rate": 5}),
        "rejected mix": ({"user": "ann", "ip": "10.1.2.3"}, {"producer_byte_rate": 5}),
        "rejected key": ({"user": "ann"}, {"no_such_rate": 5}),
        "rejected value": ({"user": "ann"}, {"producer_byte_rate": -5}),
        "rejected fraction": ({"user": "ann"}, {"producer_byte_rate": 1.5}),
        "rejected zero": ({"user": "ann"}, {"consumer_byte_rate": 0}),
        "rejected entity": ({"colour": "red"}, {"producer_byte_rate": 5}),
        "rejected empty": ({}, {"producer_byte_rate": 5}),
        "removed": ({"user": "ann"}, {"consumer_byte_rate": None}),
        "removed unset": ({"user": "nobody"}, {"consumer_byte_rate": None}),
        "empty name": ({"user": ""}, {"producer_byte_rate": 5e9}),
    }
    for name, (entity, ops) in entities.items():
        yield f"quota {name}", "alterQuotas", {"entities": [{"entity": entity, "ops": ops}]}
    tried = [{"entity": {"user": "tried"}, "ops": {"producer_byte_rate": 5}}]
    yield "quota tried", "alterQuotas", {"validateOnly": True, "entities": tried}


def users() -> Iterator[Step]:
    """AlterUserScramCredentials."""
    salt = "c2FsdHNhbHRzYWx0c2FsdA=="
    for name, user, mechanism, iterations in (
        ("new", "ann", "SCRAM-SHA-256", 4096),
        ("other mechanism", "ann", "SCRAM-SHA-512", 8192),
        ("odd", "größe, =✓", "SCRAM-SHA-512", 16384),
        ("too few", "bob", "SCRAM-SHA-256", 4095),
        ("too many", "bob", "SCRAM-SHA-256", 16385),
        ("nobody", "", "SCRAM-SHA-256", 4096),
    ):
        one = {"user": user, "mechanism": mechanism, "iterations": iterations, "password": "p", "salt": salt}
        yield f"scram {name}", "alterScram", {"users": [one]}
    yield "scram gone", "alterScram", {"users": [{"user": "ann", "mechanism": "SCRAM-SHA-512"}]}
    yield "scram gone twice", "alterScram", {"users": [{"user": "ann", "mechanism": "SCRAM-SHA-512"}]}


def acls() -> Iterator[Step]:
    """CreateAcls and DeleteAcls."""
    bindings: dict[str, dict[str, str]] = {
        "topic": {"resource": "TOPIC", "name": "t", "principal": "User:ann", "operation": "READ"},
        "prefixed": {
            "resource": "TOPIC",
            "name": "t",
            "pattern": "PREFIXED",
            "principal": "User:b",
            "operation": "ALL",
        },
        "group": {
            "resource": "GROUP",
            "name": "*",
            "principal": "User:*",
            "operation": "READ",
            "host": "10.0.0.1",
        },
        "cluster": {
            "resource": "CLUSTER",
            "name": "kafka-cluster",
            "principal": "User:c",
            "operation": "CREATE",
        },
        "denied": {
            "resource": "TRANSACTIONAL_ID",
            "name": "t",
            "principal": "User:CN=x",
            "operation": "WRITE",
            "permission": "DENY",
        },
        "user": {"resource": "USER", "name": "u", "principal": "User:f", "operation": "DESCRIBE_TOKENS"},
        "rejected cluster": {
            "resource": "CLUSTER",
            "name": "mine",
            "principal": "User:c",
            "operation": "CREATE",
        },
        "rejected operation": {"resource": "GROUP", "name": "g", "principal": "User:c", "operation": "WRITE"},
        "rejected principal": {"resource": "TOPIC", "name": "t", "principal": "ann", "operation": "READ"},
        "rejected empty": {"resource": "TOPIC", "name": "", "principal": "User:a", "operation": "READ"},
    }
    for name, one in bindings.items():
        yield f"acl {name}", "createAcls", {"acls": [one]}
    yield "acl again", "createAcls", {"acls": [bindings["topic"]]}
    yield "acl gone", "deleteAcls", {"acls": [bindings["topic"]]}
    yield "acl gone twice", "deleteAcls", {"acls": [bindings["topic"]]}


def data(directory: str) -> Iterator[Step]:
    """DeleteRecords and AlterReplicaLogDirs."""
    for name, offset in {"some": 10, "fewer": 5, "too many": 1000, "all": -1, "negative": -2}.items():
        yield f"delete records {name}", "deleteRecords", {"offsets": {"records-0": offset}}
    yield "delete records compacted", "deleteRecords", {"offsets": {"compacted-0": 1}}
    yield "log dirs same", "alterLogDirs", {"replicas": {"odd-1-0": directory}}
    yield "log dirs unknown", "alterLogDirs", {"replicas": {"odd-1-0": "/no/such/directory"}}
    yield "log dirs nobody", "alterLogDirs", {"replicas": {"nobody-0": directory}}


def features() -> Iterator[Step]:
    """UpdateFeatures."""
    for name, feature, level, kind in (
        ("same", "group.version", 1, "UPGRADE"),
        ("unknown", "no.such.feature", 1, "UPGRADE"),
        ("too high", "share.version", 99, "UPGRADE"),
        ("down without leave", "transaction.version", 1, "UPGRADE"),
        ("down", "transaction.version", 1, "SAFE_DOWNGRADE"),
        ("down unsafe", "streams.version", 0, "UNSAFE_DOWNGRADE"),
        ("up", "transaction.version", 2, "UPGRADE"),
        ("up again", "streams.version", 1, "UPGRADE"),
        ("metadata too high", "metadata.version", 99, "UPGRADE"),
        ("metadata too low", "metadata.version", 1, "UNSAFE_DOWNGRADE"),
        ("metadata down", "metadata.version", 27, "SAFE_DOWNGRADE"),
        ("metadata away", "metadata.version", 0, "SAFE_DOWNGRADE"),
        ("up as down", "share.version", 1, "SAFE_DOWNGRADE"),
    ):
        wanted = {"features": {feature: {"level": level, "type": kind}}}
        yield f"features tried {name}", "updateFeatures", {"validateOnly": True, **wanted}
        if feature != "metadata.version":
            yield f"features {name}", "updateFeatures", wanted


def cluster() -> Iterator[Step]:
    """UnregisterBroker."""
    yield "unregister unknown", "unregisterBroker", {"id": 7}


def deletions() -> Iterator[Step]:
    """DeleteTopics, and new topics with the same names at once."""
    yield "delete", "deleteTopics", {"topics": ["odd-0", "odd-3", "-rf", "nobody"]}
    again = {"odd-0": {"partitions": 1}, "odd-3": {"configs": {"retention.ms": "77"}}}
    yield "create again", "createTopics", {"topics": again}
    yield "delete by unknown id", "deleteTopicIds", {"topics": ["AAAAAAAAAAAAAAAAAAAABw"]}
    yield "delete rejected name", "deleteTopics", {"topics": ["bad name"]}
