"""A scripted history for several brokers in turn on the same directory: all kinds of metadata, and data.

The script comes from a seed. Each turn continues from the turns before, of whichever broker: it creates, deletes and
recreates topics, sets, changes and removes the settings of every kind of entity, and a producer of ours resumes.
`Cluster` is the state that the script needs for the next turn.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.protocol.records.batch import build_batch
from tests.conformance.handover import kafka_side
from tests.conformance.java_admin import JavaAdmin

GROUP_TOPIC = "codec-none"
SEQUENCED = "sequenced"
COMPACTED = ("compacted", "compacted-and-deleted")
TRANSACTIONS = "transactions"
MANY = "many"
ODD_NAMES = (
    "0",
    "-",
    "-rf",
    "...",
    "UPPER.lower-0",
    ".hidden",
    "_underscore",
    "ends-with-7",
    "ends-with-7-0",
    "x" * 249,
    "nul",
    "a" * 200,
    "1e3",
    "__almost_internal",
)
SMALL = {"segment.bytes": "1048576", "segment.index.bytes": "65536", "index.interval.bytes": "512"}
COMPACT = {"min.cleanable.dirty.ratio": "0.01", **SMALL}
ODD_CONFIGS: tuple[dict[str, str], ...] = (
    {},
    {"retention.ms": "-1", "retention.bytes": "-1"},
    {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": "86400000"},
    {"compression.type": "zstd", "compression.zstd.level": "-5"},
    {"leader.replication.throttled.replicas": "0:1,1:1", "follower.replication.throttled.replicas": "*"},
    {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "2000000"},
    {"preallocate": "true", "segment.bytes": "2097152", "segment.jitter.ms": "1000"},
    {"unclean.leader.election.enable": "true", "min.insync.replicas": "1", "file.delete.delay.ms": "0"},
    {"flush.messages": "1", "flush.ms": "1000", "delete.retention.ms": "0"},
    {"message.timestamp.before.max.ms": "9223372036854775807", "max.compaction.lag.ms": "1000000000000"},
    {"compression.type": "gzip", "compression.gzip.level": "9", "retention.ms": "31536000000000"},
    {"min.cleanable.dirty.ratio": "1.0E-4", "cleanup.policy": "compact"},
)
OVERRIDES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.retention.check.interval.ms": "3600000",
    "log.cleaner.backoff.ms": "100",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.max.timeout.ms": "86400000",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""The settings of every broker in a history."""


class Cluster:
    """The state that the turns so far have created, as far as the next turn needs it."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.topics: dict[str, int] = {}
        """Number of partitions by name, of the topics that may be deleted."""
        self.deleted: list[str] = []
        self.acls: list[dict[str, str]] = []
        self.users: list[tuple[str, str]] = []
        self.producer_id = -1
        self.sequence = 0
        self.last_offset = -1
        self.started_ms = int(time.time() * 1000)
        self.producer_ids: list[int] = []
        """All producer ids that brokers have given out, which must be unique."""


class Turn:
    """One broker's turn with the directory."""

    def __init__(self, cluster: Cluster, number: int, java: JavaAdmin, bootstrap: str) -> None:
        self.cluster = cluster
        self.number = number
        self.random = Random(f"{cluster.seed} {number}")
        self._java = java
        self._bootstrap = bootstrap

    def play(self, data: Path, *, ends_with_kill: bool) -> None:
        """Plays all of a turn.

        `data`: the log directory. `ends_with_kill`: leaves out changes that a broker writes only at checkpoints.
        """
        if self.number == 0:
            self.create_permanent_topics()
        self.work_on_topics()
        self.work_on_configs()
        self.work_on_quotas()
        self.work_on_users()
        self.work_on_acls()
        self.write(ends_with_kill=ends_with_kill)
        self.resume_producer()
        self.coordinate()
        self.compact(data)

    def do(self, do: str, **more: object) -> Any:
        """Runs an operation, which must succeed as a whole."""
        answer = self._java.request(self._bootstrap, do, **more)
        failed = {key: value for key, value in answer.items() if isinstance(value, dict) and "error" in value}
        assert not failed, f"{do} in turn {self.number}: {failed}"
        return answer

    def create(self, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
        """Creates topics by name, with their partitions and configs."""
        wanted = {
            name: {"partitions": count, "configs": dict(configs)} for name, (count, configs) in topics.items()
        }
        self.do("createTopics", topics=wanted)

    # -- topics --

    def create_permanent_topics(self) -> None:
        """Creates the topics that are never deleted."""
        self.create(
            {
                GROUP_TOPIC: (1, SMALL),
                SEQUENCED: (1, SMALL),
                TRANSACTIONS: (1, SMALL),
                kafka_side.LEFT_OPEN: (1, SMALL),
                "deleted": (1, SMALL),
                MANY: (60, {"retention.ms": "86400000"}),
                COMPACTED[0]: (1, {"cleanup.policy": "compact", **COMPACT}),
                COMPACTED[1]: (1, {"cleanup.policy": "compact,delete", **COMPACT}),
            }
        )

    def work_on_topics(self) -> None:
        """Creates topics, deletes some, recreates some at once, adds partitions to some."""
        cluster, random = self.cluster, self.random
        free = [name for name in ODD_NAMES if name not in cluster.topics]
        new = {
            name: (random.randint(1, 4), random.choice(ODD_CONFIGS))
            for name in random.sample(free, min(6, len(free)))
        }
        new[f"turn-{self.number}"] = (3, ODD_CONFIGS[self.number % len(ODD_CONFIGS)])
        self.create(new)
        cluster.topics.update({name: count for name, (count, _) in new.items()})
        for name in random.sample(sorted(cluster.topics), 4):
            cluster.topics[name] += random.randint(1, 3)
            more: dict[str, object] = {"count": cluster.topics[name]}
            self.do("createPartitions", topics={name: more})
        self._produce_some()
        gone = random.sample(sorted(cluster.topics), 4)
        self.do("deleteTopics", topics=gone)
        for name in gone:
            del cluster.topics[name]
        again = {name: (random.randint(1, 5), random.choice(ODD_CONFIGS)) for name in gone[:2]}
        self.create(again)
        cluster.topics.update({name: count for name, (count, _) in again.items()})
        assigned = f"assigned-{self.number}"
        self.do("createTopics", topics={assigned: {"assignments": {"0": [1], "1": [1]}}})
        self.do("createPartitions", topics={assigned: {"count": 3, "assignments": [[1]]}})
        self._produce_some()

    def _produce_some(self) -> None:
        codec = kafka_side.CODECS[self.number % len(kafka_side.CODECS)]
        names = [name for name in sorted(self.cluster.topics) if self.random.random() < 0.5]
        producer = kafka_side.quiet_producer(self._bootstrap, compression_type=codec)
        for name in names:
            for index in range(self.random.randint(1, 30)):
                partition = index % self.cluster.topics[name]
                producer.produce(name, b"%d" % index, b"key-%d" % (index % 7), partition)
        assert producer.flush(60) == 0

    # -- configs --

    def work_on_configs(self) -> None:
        """Changes configs of topics, brokers, the cluster, groups and client metrics, and removes some of them."""
        topics = self.random.sample(sorted(self.cluster.topics), 2)
        n = self.number
        resources: list[dict[str, object]] = [
            _resource(
                "TOPIC", topics[0], ("SET", "retention.ms", str(90_000_000 + n)), ("DELETE", "flush.ms", "")
            ),
            _resource("TOPIC", topics[1], ("APPEND", "leader.replication.throttled.replicas", f"{n}:1")),
            _resource("TOPIC", MANY, ("APPEND", "cleanup.policy", "compact" if n % 2 else "delete")),
            _resource("BROKER", "1", ("SET", "log.cleaner.threads", str(1 + n % 2)), *self._broker_ops()),
            _resource("BROKER", "", ("SET", "message.max.bytes", str(2_000_000 + n)), *self._default_ops()),
            _resource("CLIENT_METRICS", f"metrics-{n % 3}", *_metrics_ops(n)),
            _resource("GROUP", f"group-{n % 3}", ("SET", "consumer.session.timeout.ms", str(45_000 + n))),
        ]
        if n:
            last = (n - 1) % 3
            resources.append(
                _resource("GROUP", f"group-{last}", ("DELETE", "consumer.session.timeout.ms", ""))
            )
            resources.append(_resource("CLIENT_METRICS", f"metrics-{last}", ("DELETE", "match", "")))
        self.do("alterConfigs", resources=resources)

    def _broker_ops(self) -> list[tuple[str, str, str]]:
        if self.number % 2:
            return [
                ("DELETE", "leader.replication.throttled.rate", ""),
                ("SET", "log.flush.interval.ms", "5000"),
            ]
        return [
            ("SET", "leader.replication.throttled.rate", "10000000"),
            ("DELETE", "log.flush.interval.ms", ""),
        ]

    def _default_ops(self) -> list[tuple[str, str, str]]:
        if self.number % 2:
            return [("SET", "log.retention.ms", "700000000"), ("SET", "max.connections.per.ip", "1000")]
        return [("SET", "background.threads", str(8 + self.number)), ("DELETE", "log.retention.ms", "")]

    # -- quotas, users, ACLs --

    def work_on_quotas(self) -> None:
        """Sets quotas of all kinds of entities, named and default, and removes some of the turn before."""
        n = self.number
        named: list[dict[str, str | None]] = [
            {"user": f"user-{n}"},
            {"user": "sign=in;name größe"},
            {"user": None},
            {"client-id": f"client-{n}"},
            {"client-id": None},
            {"user": f"user-{n}", "client-id": "both"},
            {"user": None, "client-id": f"client-{n}"},
            {"user": f"user-{n}", "client-id": None},
            {"user": None, "client-id": None},
        ]
        rate = 1e9 + self.random.randrange(10**6)
        entities: list[dict[str, object]] = [
            {"entity": entity, "ops": {"producer_byte_rate": rate + index, "request_percentage": 900.5}}
            for index, entity in enumerate(named)
        ]
        entities += [
            {"entity": {"ip": f"10.0.0.{n}"}, "ops": {"connection_creation_rate": 1000.0 + n}},
            {"entity": {"ip": None}, "ops": {"connection_creation_rate": 5000.0}},
            {"entity": {"user": f"mutator-{n}"}, "ops": {"controller_mutation_rate": 1e6}},
        ]
        if n:
            gone: dict[str, None] = {"producer_byte_rate": None, "request_percentage": None}
            entities.append({"entity": {"user": f"user-{n - 1}"}, "ops": gone})
            entities.append({"entity": {"ip": f"10.0.0.{n - 1}"}, "ops": {"connection_creation_rate": None}})
        self.do("alterQuotas", entities=entities)

    def work_on_users(self) -> None:
        """Adds, changes and removes SCRAM credentials of both mechanisms."""
        users: list[dict[str, object]] = []
        for user, mechanism in ((f"scram-{self.number}", "SCRAM-SHA-256"), ("größe, ✓", "SCRAM-SHA-512")):
            salt = base64.b64encode(self.random.randbytes(20)).decode()
            iterations = self.random.randint(4096, 4200)
            users.append(
                {
                    "user": user,
                    "mechanism": mechanism,
                    "iterations": iterations,
                    "password": "secret",
                    "salt": salt,
                }
            )
        if self.number >= 2:
            users.append({"user": f"scram-{self.number - 2}", "mechanism": "SCRAM-SHA-256"})
        self.do("alterScram", users=users)

    def work_on_acls(self) -> None:
        """Creates ACLs of all kinds of resources and patterns, and deletes some of the turns before."""
        n = self.number
        new = [
            {"resource": "TOPIC", "name": f"orders-{n}", "principal": "User:a", "operation": "READ"},
            {
                "resource": "TOPIC",
                "name": "ord",
                "pattern": "PREFIXED",
                "principal": f"User:b{n}",
                "operation": "ALL",
            },
            {
                "resource": "GROUP",
                "name": "*",
                "principal": "User:c d",
                "operation": "READ",
                "host": f"10.1.1.{n}",
            },
            {"resource": "CLUSTER", "name": "kafka-cluster", "principal": f"User:e{n}", "operation": "ALTER"},
            {
                "resource": "TRANSACTIONAL_ID",
                "name": f"t{n}",
                "principal": "User:CN=x,O=y",
                "operation": "WRITE",
            },
            {"resource": "USER", "name": "u", "principal": f"User:f{n}", "operation": "CREATE_TOKENS"},
            {
                "resource": "TOPIC",
                "name": "*",
                "principal": f"User:g{n}",
                "operation": "WRITE",
                "permission": "DENY",
            },
        ]
        self.do("createAcls", acls=new)
        gone = self.random.sample(self.cluster.acls, min(3, len(self.cluster.acls)))
        if gone:
            self.do("deleteAcls", acls=gone)
        self.cluster.acls = [one for one in self.cluster.acls if one not in gone] + new

    # -- data --

    def write(self, *, ends_with_kill: bool) -> None:
        """Writes records with a stock producer, and deletes some from the start of a log."""
        kafka_side.produce(self._bootstrap, GROUP_TOPIC, 200, "lz4", first=200 * self.number)
        kafka_side.produce(self._bootstrap, "deleted", 300, first=300 * self.number)
        if not ends_with_kill:
            low = 250 * self.number + self.random.randrange(250)
            assert self.do("deleteRecords", offsets={"deleted-0": low}) == {"deleted-0": low}

    def resume_producer(self) -> None:
        """Continues the sequence of one producer through all brokers, which must recognize its duplicates."""
        cluster = self.cluster
        init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        given = kafka_side.eventually(self._bootstrap, init, 5).producer_id
        assert given not in cluster.producer_ids, "a producer id was given out twice"
        cluster.producer_ids.append(given)
        if cluster.producer_id < 0:
            cluster.producer_id = given
        else:
            assert self._sequenced(cluster.sequence - 1) == (0, cluster.last_offset)
            assert self._sequenced(cluster.sequence + 1)[0] == OUT_OF_ORDER
        for _ in range(7):
            error, cluster.last_offset = self._sequenced(cluster.sequence)
            assert error == 0
            cluster.sequence += 1

    def _sequenced(self, sequence: int) -> tuple[int, int]:
        batch = build_batch(
            [(b"k", b"number %d" % sequence, self.cluster.started_ms + sequence, ())],
            producer_id=self.cluster.producer_id,
            producer_epoch=0,
            base_sequence=sequence,
        )
        return kafka_side.send(self._bootstrap, SEQUENCED, batch)

    def coordinate(self) -> None:
        """Commits offsets of a group, commits and aborts transactions, and leaves one open."""
        kafka_side.commit_offsets(self._bootstrap, "readers" if self.number < 2 else f"readers-{self.number}")
        kafka_side.transact(self._bootstrap, TRANSACTIONS, rounds=2)
        kafka_side.open_transaction(self._bootstrap)

    def compact(self, data: Path) -> None:
        """Writes repeated keys, and waits until the log cleaner has compacted them."""
        producer = kafka_side.quiet_producer(self._bootstrap, batch_num_messages=20)
        for topic in COMPACTED:
            for number in range(1500):
                value = None if number % 7 == 0 else self.random.randbytes(1000)
                producer.produce(topic, value, b"key-%d" % (number * 37 % 200), 0)
        assert producer.flush(60) == 0
        kafka_side.await_cleaning(data, COMPACTED)


OUT_OF_ORDER = 45


def _resource(kind: str, name: str, *ops: tuple[str, str, str]) -> dict[str, object]:
    return {"type": kind, "name": name, "ops": [list(op) for op in ops]}


def _metrics_ops(number: int) -> list[tuple[str, str, str]]:
    return [
        ("SET", "metrics", f"org.apache.kafka.producer.,org.apache.kafka.consumer.n{number}"),
        ("SET", "interval.ms", str(60_000 + number)),
        ("SET", "match", "client_id=app-.*,client_software_name=apache-kafka-java"),
    ]
