"""Members of consumer groups (KIP-848) for dialogues."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final

from barnabas.broker.metadata.internal_topics import partition_for
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest as Request
from barnabas.protocol.messages.topics import CreatePartitionsRequest, DeleteTopicsRequest
from barnabas.protocol.schema import Message
from tests.conformance.dialogue_client import DialogueClient

HEARTBEAT, DESCRIBE = 1, 1
"""The newest versions, for requests that a dialogue does not vary."""

GROUP_RESOURCE: Final = 32
_OFFSETS_PARTITIONS: Final = 50
Owned = Mapping[str, Sequence[int]]


def _sort(client: DialogueClient, assignment: Any) -> None:
    """Sorts topics and partitions in an order that is the same for every broker."""
    if assignment is None:
        return
    assignment.topic_partitions.sort(key=lambda topic: client.known_as(topic.topic_id))
    for topic in assignment.topic_partitions:
        topic.partitions.sort()


def configure(client: DialogueClient, group: str, settings: Mapping[str, str]) -> None:
    """Sets group configs; notes nothing. Kafka's coordinator applies them a little later."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=GROUP_RESOURCE,
        resource_name=group,
        configs=[
            IncrementalAlterConfigsRequest.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in settings.items()
        ],
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    client.request_until(request, lambda answer: answer.responses[0].error_code == 0, 1)


def awaits_topics(client: DialogueClient, group: str, *names: str) -> None:
    """Waits until the group's coordinator knows the topics: Kafka's learns of them a little later than its broker.

    A probe group of the same partition of __consumer_offsets subscribes to them; nothing is noted.
    """
    there = [name for name in names if client.has_created(name)]
    if not there:
        return
    shard = partition_for(group, _OFFSETS_PARTITIONS)
    probes = (f"{group}-probe-{number}" for number in count())
    probe = next(name for name in probes if partition_for(name, _OFFSETS_PARTITIONS) == shard)
    joining = Request(
        group_id=probe,
        member_id="probe",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=there,
        topic_partitions=[],
    )

    def has_all(answer: Any) -> bool:
        return answer.error_code == 0 and len(answer.assignment.topic_partitions) == len(there)

    client.request_until(joining, has_all, HEARTBEAT)
    leaving = Request(group_id=probe, member_id="probe", member_epoch=-1)
    client.request_until(leaving, lambda answer: answer.error_code == 0, HEARTBEAT)


class Consumer:
    """A member of `group`; `id` and `epoch` come from its last successful heartbeat."""

    def __init__(
        self, client: DialogueClient, group: str, member_id: str, *, instance: str | None = None
    ) -> None:
        self._client = client
        self.group = group
        self.id = member_id
        self.instance = instance
        self.epoch = 0
        self.version = min(client.version, HEARTBEAT)

    def heartbeat_request(self, **fields: Any) -> Request:
        base: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.id,
            "member_epoch": self.epoch,
            "instance_id": self.instance,
        }
        return Request(**{**base, **fields})

    def join(self, *topics: str, **fields: Any) -> Any:
        """Joins with a subscription to `topics` once the coordinator knows them; notes the response."""
        awaits_topics(self._client, self.group, *topics)
        base: dict[str, Any] = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 30_000,
            "subscribed_topic_names": list(topics),
            "topic_partitions": [],
        }
        return self.heartbeat(**{**base, **fields})

    def heartbeat(self, **fields: Any) -> Any:
        """Sends a heartbeat; notes the response."""

        def in_order(answer: Any) -> Any:
            _sort(self._client, answer.assignment)
            return answer

        answer = self._client.request(self.heartbeat_request(**fields), self.version, noting=in_order)
        if answer.error_code == 0:
            self.id, self.epoch = answer.member_id, answer.member_epoch
        return answer

    def report_owned(self, owned: Owned, **fields: Any) -> Any:
        """Sends a heartbeat that reports the owned partitions; notes the response."""
        return self.heartbeat(topic_partitions=self.partitions(owned), **fields)

    def partitions(self, owned: Owned) -> list[Request.TopicPartitions]:
        return [
            Request.TopicPartitions(topic_id=self._client.id_of(name), partitions=list(partitions))
            for name, partitions in owned.items()
        ]

    def leave(self, epoch: int = -1) -> Any:
        return self._client.request(self.heartbeat_request(member_epoch=epoch), self.version)

    def until_interval(self, interval_ms: int) -> None:
        """Waits until a response carries this heartbeat interval; notes nothing."""
        self._client.request_until(
            self.heartbeat_request(), lambda answer: answer.heartbeat_interval_ms == interval_ms, self.version
        )

    def until_assigned(self, count: int) -> None:
        """Waits until the coordinator assigns `count` partitions; notes nothing."""
        deadline = time.monotonic() + 20
        assigned = -1
        while assigned != count:
            answer: Any = self._client.connection.request(self.heartbeat_request(), self.version)
            assert answer.error_code == 0, answer
            assert time.monotonic() < deadline, answer
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                assigned = sum(len(topic.partitions) for topic in answer.assignment.topic_partitions)
            time.sleep(0.05)


def described(client: DialogueClient, *groups: str, version: int = DESCRIBE, **fields: Any) -> Any:
    """Notes ConsumerGroupDescribe with groups, members and topics sorted."""

    def in_their_order(answer: Any) -> Any:
        answer.groups.sort(key=lambda group: group.group_id)
        for group in answer.groups:
            group.members.sort(key=lambda member: (member.client_id, member.member_id))
            for member in group.members:
                member.subscribed_topic_names.sort()
                _sort(client, member.assignment)
                _sort(client, member.target_assignment)
        return answer

    request = ConsumerGroupDescribeRequest(group_ids=list(groups), **fields)
    return client.request(request, version, noting=in_their_order)


def delete_topic(client: DialogueClient, name: str) -> None:
    _request_without_error(client, DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), 5)


def add_partitions(client: DialogueClient, name: str, count: int) -> None:
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
    _request_without_error(client, CreatePartitionsRequest(topics=[topic], timeout_ms=30_000), 3)


def _request_without_error(client: DialogueClient, request: Message, version: int) -> None:
    answer: Any = client.connection.request(request, version)
    results = answer.responses if hasattr(answer, "responses") else answer.results
    assert results[0].error_code == 0, answer
