"""ConsumerHarness: one shard with topics and members of the consumer protocol, with a manual clock.

harness = ConsumerHarness(t=4)                the topic t with 4 partitions
a = harness.join("g", "a", "t")             member a joins group g, subscribed to t
a.beat(); a.owned == {"t": [0, 1]}        it receives its assignment, and reports it with its next heartbeat
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barnabas.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.broker.coordinator.group.consumer.consumer_service import describe_group
from barnabas.broker.coordinator.group.consumer.member_lookup import find_group
from barnabas.broker.coordinator.group.consumer.settings import assignor_names
from barnabas.broker.coordinator.group.shard import GroupCoordinatorShard
from barnabas.broker.request import ConnectionInfo, RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatResponse,
)
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest as Request
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.topic_records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from tests.broker.coordinator.shard_harness import ShardHarness

GROUP_RESOURCE = 32
SESSION_MS = 45_000
IMMEDIATE = {"group.consumer.assignment.interval.ms": "0"}

Owned = dict[str, list[int]]


def id_of(topic: str, generation: int = 0) -> Uuid:
    """The id of a topic created for the `generation`th time."""
    return generation.to_bytes(4, "big") + topic.encode().ljust(12, b"\1")[:12]


def context(
    version: int = 1, client_id: str | None = "client", key: ApiKey = ApiKey.JOIN_GROUP
) -> RequestContext:
    connection = ConnectionInfo(
        connection_id=1,
        listener_name="PLAINTEXT",
        client_host="192.0.2.7",
        client_port=1,
        local_host="192.0.2.1",
        local_port=9092,
    )
    return RequestContext(connection, key, version, client_id=client_id)


class ConsumerHarness:
    """See the module. Topics are given by name, with how many partitions they have."""

    def __init__(self, settings: Mapping[str, str] | None = None, **topics: int) -> None:
        self.shard_harness = ShardHarness(GroupCoordinatorShard, {**IMMEDIATE, **(settings or {})})
        self._generations: dict[str, int] = {}
        for name, partitions in topics.items():
            self.create(name, partitions)

    # ---- the metadata

    def create(self, name: str, partitions: int) -> None:
        topic_id = id_of(name, self._generations.get(name, 0))
        self.shard_harness.metadata_changes(
            TopicRecord(name=name, topic_id=topic_id), *_partitions(topic_id, range(partitions))
        )

    def grow(self, name: str, partitions: int) -> None:
        topic = self.shard_harness.image.topics[name]
        self.shard_harness.metadata_changes(
            *_partitions(topic.topic_id, range(len(topic.partitions), partitions))
        )

    def delete(self, name: str) -> None:
        self.shard_harness.metadata_changes(
            RemoveTopicRecord(topic_id=self.shard_harness.image.topics[name].topic_id)
        )
        self._generations[name] = self._generations.get(name, 0) + 1

    def configure(self, group_id: str, **settings: object) -> None:
        """A group's own settings; underscores stand for dots."""
        self.shard_harness.metadata_changes(
            *(
                ConfigRecord(
                    resource_type=GROUP_RESOURCE,
                    resource_name=group_id,
                    name=name.replace("_", "."),
                    value=str(value),
                )
                for name, value in settings.items()
            )
        )

    # ---- members

    def join(self, group_id: str, member_id: str, *topics: str, **fields: Any) -> Consumer:
        member = Consumer(self, group_id, member_id, fields.pop("instance_id", None))
        member.join(*topics, **fields)
        return member

    def heartbeat(self, request: Request, version: int = 1) -> ConsumerGroupHeartbeatResponse:
        response = self.shard_harness.run(lambda shard: shard.heartbeats.heartbeat(context(version), request))
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    # ---- state

    def group(self, group_id: str = "g") -> ConsumerGroup:
        group = self.shard_harness.shard.groups.get(group_id)
        assert isinstance(group, ConsumerGroup)
        return group

    def describe(self, group_id: str = "g") -> ConsumerGroupDescribeResponse.DescribedGroup:
        group = find_group(self.shard_harness.shard.groups, group_id)
        return describe_group(group, assignor_names(self.shard_harness.config)[0], self.shard_harness.image)

    def advance(self, ms: int) -> None:
        self.shard_harness.advance(ms)

    def last(self, kind: type[Message]) -> Any:
        """The value of the newest record whose value is of this kind."""
        values = [record.value for record in self.shard_harness.records]
        return next(value for value in reversed(values) if isinstance(value, kind))

    def named(self, topics: Sequence[Any]) -> Owned:
        """Partitions by the names of their topics, as they are in answers."""
        names = self.shard_harness.image.topic_names
        return {
            names[topic.topic_id]: sorted(topic.partitions) for topic in topics if topic.topic_id in names
        }

    def restart(self, *, compacted: bool = False) -> None:
        """A harness whose shard has replayed the log, whole or after compaction."""
        self.shard_harness = self.shard_harness.compacted() if compacted else self.shard_harness.reloaded()


class Consumer:
    """A member; `owned` is its last assignment, which it reports with its heartbeats."""

    def __init__(
        self, harness: ConsumerHarness, group_id: str, member_id: str, instance_id: str | None = None
    ) -> None:
        self.harness = harness
        self.group_id = group_id
        self.id = member_id
        self.instance_id = instance_id
        self.epoch = 0
        self.owned: Owned = {}

    def join(self, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        self.owned = {}
        base: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": list(topics),
        }
        return self.beat(**{**base, **fields})

    def beat(self, **fields: Any) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that reports what it owns; a new assignment in the response is what it owns from now on."""
        base: dict[str, Any] = {
            "member_epoch": self.epoch,
            "instance_id": self.instance_id,
            "topic_partitions": self.partitions(self.owned),
        }
        request = Request(group_id=self.group_id, member_id=self.id, **{**base, **fields})
        response = self.harness.heartbeat(request)
        self.id = response.member_id or self.id
        self.epoch = response.member_epoch
        if response.assignment is not None:
            self.owned = self.harness.named(response.assignment.topic_partitions)
        return response

    def leave(self, epoch: int = -1) -> ConsumerGroupHeartbeatResponse:
        return self.harness.heartbeat(
            Request(
                group_id=self.group_id, member_id=self.id, member_epoch=epoch, instance_id=self.instance_id
            )
        )

    def partitions(self, owned: Mapping[str, Sequence[int]]) -> list[Request.TopicPartitions]:
        topics = self.harness.shard_harness.image.topics
        return [
            Request.TopicPartitions(topic_id=topics[name].topic_id, partitions=list(partitions))
            for name, partitions in owned.items()
            if name in topics
        ]


def _partitions(topic_id: Uuid, indexes: range) -> list[PartitionRecord]:
    return [
        PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
        for index in indexes
    ]


# ---- members of the classic protocol


def subscription(*topics: str, owned: Mapping[str, Sequence[int]] | None = None, version: int = 3) -> bytes:
    message = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=list(partitions))
            for topic, partitions in (owned or {}).items()
        ],
    )
    return version.to_bytes(2, "big") + encode(message, version)


def assignment(owned: Mapping[str, Sequence[int]], user_data: bytes | None = None, version: int = 3) -> bytes:
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=list(partitions))
            for topic, partitions in owned.items()
        ],
        user_data=user_data,
    )
    return version.to_bytes(2, "big") + encode(message, version)


class ClassicConsumer:
    """A member of the classic protocol, of a group of either kind: as the router serves it."""

    def __init__(
        self, harness: ConsumerHarness, group_id: str, *topics: str, instance_id: str | None = None
    ) -> None:
        self.harness = harness
        self.group_id = group_id
        self.topics = topics
        self.instance_id = instance_id
        self.id = ""
        self.generation = -1
        self.owned: Owned = {}

    @property
    def _is_consumer_group(self) -> bool:
        group = self.harness.shard_harness.shard.groups.find(self.group_id)
        return isinstance(group, ConsumerGroup) and not group.is_empty

    def join(self, **fields: Any) -> JoinGroupResponse:
        """Its whole JoinGroup; a new member gets an id first."""
        response = self.ask_to_join(**fields)
        if response.error_code == 79:  # MEMBER_ID_REQUIRED
            self.id = response.member_id
            response = self.ask_to_join(**fields)
        self.id, self.generation = response.member_id, response.generation_id
        return response

    def ask_to_join(self, **fields: Any) -> JoinGroupResponse:
        base: dict[str, Any] = {
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [
                JoinGroupRequest.JoinGroupRequestProtocol(
                    name="range", metadata=subscription(*self.topics, owned=self.owned)
                )
            ],
        }
        request = JoinGroupRequest(
            group_id=self.group_id,
            member_id=self.id,
            group_instance_id=self.instance_id,
            **{**base, **fields},
        )
        to_consumers = self._is_consumer_group
        response = self.harness.shard_harness.run(
            lambda shard: (
                shard.classic_members.join(context(9), request)
                if to_consumers
                else shard.joining.join(context(9), request)
            )
        )
        assert isinstance(response, JoinGroupResponse), response
        return response

    def sync(self, assignments: Mapping[str, bytes] | None = None, **fields: Any) -> Any:
        base: dict[str, Any] = {"generation_id": self.generation, "protocol_type": "consumer"}
        request = SyncGroupRequest(
            group_id=self.group_id,
            member_id=self.id,
            group_instance_id=self.instance_id,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=given)
                for member_id, given in (assignments or {}).items()
            ],
            **{**base, **fields},
        )
        to_consumers = self._is_consumer_group
        return self.harness.shard_harness.run(
            lambda shard: shard.classic_members.sync(request) if to_consumers else shard.syncing.sync(request)
        )

    def heartbeat(self, **fields: Any) -> int:
        """The error code."""
        base: dict[str, Any] = {"generation_id": self.generation, "member_id": self.id}
        request = HeartbeatRequest(
            group_id=self.group_id, group_instance_id=self.instance_id, **{**base, **fields}
        )
        to_consumers = self._is_consumer_group
        response: Any = self.harness.shard_harness.run(
            lambda shard: (
                shard.classic_members.heartbeat(request) if to_consumers else shard.leaving.heartbeat(request)
            )
        )
        return int(response.error_code)

    def leave(self) -> Any:
        identity = LeaveGroupRequest.MemberIdentity(member_id=self.id, group_instance_id=self.instance_id)
        request = LeaveGroupRequest(group_id=self.group_id, members=[identity])
        return self.harness.shard_harness.run(lambda shard: shard.classic_members.leave(request))
