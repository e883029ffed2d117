"""Consumer groups pass from Apache Kafka to Barnabas and back without a new epoch; members keep their partitions.

BARNABAS_HANDOVER_LONG adds Kafka 4.1, which writes no epochs of partitions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupHeartbeatRequest as Request
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues.members import a_group
from tests.conformance.handover.sides import KAFKA, OLD_KAFKA, OURS, Broker, Directory

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(300)]

ORDERS = [(KAFKA, OURS, KAFKA)]
if os.environ.get("BARNABAS_HANDOVER_LONG"):
    ORDERS += [(OURS, KAFKA, OURS), (OLD_KAFKA, OURS, OLD_KAFKA), (OLD_KAFKA, OURS, KAFKA)]
GROUP = "handed-over"
SETTLE_LIMIT_S = 60.0


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    place = Directory(tmp_path, {"group.consumer.assignment.interval.ms": "0", "broker.rack": "rack-a"})
    yield place
    place.end()


class Member:
    """A member that reports its partitions to the current broker and adopts each assignment."""

    def __init__(self, name: str, **subscription: Any) -> None:
        self.name = name
        self.epoch = 0
        self.owned: list[Request.TopicPartitions] = []
        self._subscription = subscription

    def beat(self, connection: BrokerConnection) -> None:
        joins = self.epoch == 0
        first = {"rebalance_timeout_ms": 60_000, **self._subscription} if joins else {}
        request = Request(
            group_id=GROUP,
            member_id=self.name,
            member_epoch=self.epoch,
            topic_partitions=self.owned,
            **first,
        )
        answer: Any = connection.request(request, 1)
        assert answer.error_code in {0, 14, 15, 16}, answer
        if answer.error_code:
            return
        self.epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = [
                Request.TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                for topic in answer.assignment.topic_partitions
            ]


def described(connection: BrokerConnection) -> Any:
    """The description of the group, sorted."""
    answer: Any = connection.request(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
    (group,) = answer.groups
    group.members.sort(key=lambda member: member.member_id)
    for member in group.members:
        member.subscribed_topic_names.sort()
        for assignment in (member.assignment, member.target_assignment):
            assignment.topic_partitions.sort(key=lambda topic: topic.topic_name)
            for topic in assignment.topic_partitions:
                topic.partitions.sort()
    return group


def settle(connection: BrokerConnection, members: list[Member], size: int) -> Any:
    """Sends heartbeats until the group is stable and its members own `size` partitions."""
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while True:
        for member in members:
            member.beat(connection)
        group = described(connection)
        owned = sum(len(topic.partitions) for member in members for topic in member.owned)
        if group.group_state == "Stable" and owned == size:
            return group
        assert time.monotonic() < deadline, group
        time.sleep(0.1)


def connect_when_loaded(broker: Broker) -> BrokerConnection:
    """A connection, once the group's coordinator has loaded."""
    connection = BrokerConnection("127.0.0.1", broker.port)
    request = ConsumerGroupDescribeRequest(group_ids=[GROUP])
    deadline = time.monotonic() + SETTLE_LIMIT_S
    while True:
        answer: Any = connection.request(request, 1)
        if answer.groups[0].error_code in {0, 69}:
            return connection
        assert time.monotonic() < deadline, answer
        time.sleep(0.05)


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_takeover_by_another_broker_begins_no_epoch(order: tuple[str, ...], directory: Directory) -> None:
    first, *others = order
    broker = directory.broker(first).start()
    with BrokerConnection("127.0.0.1", broker.port) as connection:
        client = DialogueClient(connection, 1, "handover")
        a_group(client, "g")
        topics = [client.create("a", 6), client.create("b", 2)]
        members = [
            Member("m0", subscribed_topic_names=topics),
            Member("m1", subscribed_topic_names=[], subscribed_topic_regex="handover-.*"),
            Member("m2", subscribed_topic_names=topics[:1], server_assignor="range"),
        ]
        expected = settle(connection, members, 8)
    for number, side in enumerate(others):
        assert broker.stop() == broker.clean_status
        broker = directory.broker(side).start()
        with connect_when_loaded(broker) as connection:
            assert described(connection) == expected, f"{side} reads another group than {order[number]} wrote"
            for _ in range(3):
                for member in members:
                    member.beat(connection)
            assert described(connection) == expected, f"{side} has begun another epoch"
            members.append(Member(f"n{number}", subscribed_topic_names=topics))
            expected = settle(connection, members, 8)
