"""TransactionMarkerChannelManager: the requests by which markers reach other brokers, and what becomes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from barnabas.broker.coordinator.transaction.broker_channels import BrokerChannels
from barnabas.broker.coordinator.transaction.marker_channels import TransactionMarkerChannelManager
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.node_client.channel import NodeClientError, ResponseCorrupt, UnsupportedVersion
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topic_records import RemoveTopicRecord
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from barnabas.protocol.schema import Message
from barnabas.storage.offsets import TopicPartition
from tests.broker.cluster_images import (
    INSIDE,
    election,
    fencing,
    image_of,
    registration,
    topic_id,
    topic_records,
)
from tests.broker.coordinator.transaction.transaction_harness import Markers
from tests.broker.fake_channels import LOST, FakeChannels

COMMIT = TransactionMarker(7, 3, 5, True, 2)
OTHER = TransactionMarker(8, 0, 5, False, 1)
NONE, AGAIN = ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER


class Sending:
    """A manager in broker 1 of three. Topic t has partitions 0 to 4, which brokers 1, 2, 3, 2 and none lead."""

    def __init__(self) -> None:
        self.image = image_of(*map(registration, (1, 2, 3)), *topic_records("t", [1, 2, 3, 2, -1]))
        self.channels = FakeChannels()
        self.local = Markers()
        brokers = BrokerChannels(1, self._image, INSIDE, self.channels.to, lambda: 1234)
        self.manager = TransactionMarkerChannelManager(brokers, self.local)

    def _image(self) -> MetadataImage:
        return self.image

    def publish(self, *records: Message) -> None:
        self.image, delta = replayed(self.image, records)
        self.manager.apply(self.image, delta)

    def send(self, marker: TransactionMarker, *indexes: int, current: Sequence[bool] = (True,)) -> Told:
        """Sends to partitions of t; `current` is read each time the marker's coordinator is asked."""
        told = Told()
        for answer in self.manager.send(marker, [("t", index) for index in indexes], lambda: current[-1]):
            answer.add_done_callback(told.add)
        return told

    def requested(self, node_id: int) -> list[dict[int, list[int]]]:
        """The partitions of t by producer id, in each request for a broker."""
        found = []
        for sent in self.channels[node_id].sent:
            assert isinstance(sent.request, WriteTxnMarkersRequest)
            found.append(
                {
                    marker.producer_id: [
                        index for topic in marker.topics for index in topic.partition_indexes
                    ]
                    for marker in sent.request.markers
                }
            )
        return found

    def respond(self, node_id: int, *errors: tuple[int, Mapping[int, int]]) -> None:
        """Responds with (producer id, code of each partition of t)."""
        self.channels[node_id].respond(response(*errors))


class Told(dict[int, str]):
    """The names of the codes, by partition of t; filled in as answers come."""

    def add(self, codes: Mapping[TopicPartition, ErrorCode]) -> None:
        for (topic, index), code in codes.items():
            assert topic == "t"
            assert index not in self
            self[index] = code.name


def response(*errors: tuple[int, Mapping[int, int]]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponse.WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                        name="t",
                        partitions=[
                            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                                partition_index=index, error_code=code
                            )
                            for index, code in codes.items()
                        ],
                    )
                ],
            )
            for producer_id, codes in errors
        ]
    )


def test_each_leader_gets_its_partitions_and_answers_by_itself() -> None:
    sending = Sending()
    told = sending.send(COMMIT, 0, 1, 2, 3)
    assert told == {0: "NONE"}
    assert (sending.requested(2), sending.requested(3)) == ([{7: [1, 3]}], [{7: [2]}])
    sending.respond(3, (7, {2: 0}))
    assert told == {0: "NONE", 2: "NONE"}
    sending.respond(2, (7, {1: AGAIN, 3: 0}))
    assert told == {0: "NONE", 1: AGAIN.name, 2: "NONE", 3: "NONE"}


def test_a_request_says_all_of_a_marker() -> None:
    sending = Sending()
    sending.send(COMMIT, 1)
    (sent,) = sending.channels[2].sent
    assert (sent.version, sent.timeout_ms) == (None, 1234)
    for version in (1, 2):
        (marker,) = decode(WriteTxnMarkersRequest, version, encode(sent.request, version)).markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 5)
        assert (marker.transaction_result, marker.transaction_version) == (True, 2 if version == 2 else 0)


def test_markers_gather_while_a_request_is_under_way() -> None:
    sending = Sending()
    first = sending.send(COMMIT, 1)
    second, third = sending.send(OTHER, 1), sending.send(COMMIT._replace(producer_id=9), 3)
    assert sending.requested(2) == [{7: [1]}]
    sending.respond(2, (7, {1: 0}))
    assert sending.requested(2) == [{7: [1]}, {8: [1], 9: [3]}]
    sending.respond(2, (9, {3: 0}), (8, {1: 0}))
    assert [first, second, third] == [{1: "NONE"}, {1: "NONE"}, {3: "NONE"}]
    assert sending.channels[2].under_way == 0


def test_a_partition_that_a_response_lacks_is_not_done() -> None:
    sending = Sending()
    told = sending.send(COMMIT, 1, 3)
    sending.respond(2, (7, {1: 0}))
    assert told == {1: "NONE", 3: "UNKNOWN_SERVER_ERROR"}
    told = sending.send(COMMIT, 1)
    sending.respond(2, (8, {1: 0}))
    assert told == {1: "UNKNOWN_SERVER_ERROR"}
    told = sending.send(COMMIT, 1)
    sending.respond(2, (7, {1: 32_000}))
    assert told == {1: "UNKNOWN_SERVER_ERROR"}


@pytest.mark.parametrize("result", [LOST, UnsupportedVersion("old"), ResponseCorrupt("bytes")])
def test_a_broker_that_gives_no_response_fails_the_markers_and_the_next_request_follows(
    result: NodeClientError,
) -> None:
    sending = Sending()
    told, later = sending.send(COMMIT, 1, 3), sending.send(OTHER, 1)
    sending.channels[2].respond(result)
    assert told == {1: "NETWORK_EXCEPTION", 3: "NETWORK_EXCEPTION"}
    assert sending.requested(2)[1:] == [{8: [1]}]
    sending.respond(2, (8, {1: 0}))
    assert later == {1: "NONE"}


def test_without_a_channel_the_markers_fail() -> None:
    sending = Sending()
    sending.channels.missing.add(2)
    assert sending.send(COMMIT, 1) == {1: "NETWORK_EXCEPTION"}


# ---- unknown leaders


def test_markers_wait_for_a_leader_that_is_alive() -> None:
    sending = Sending()
    sending.publish(fencing(3, fenced=True))
    told = sending.send(COMMIT, 2, 4)
    assert (told, sending.manager.unknown_destinations) == ({}, 2)
    sending.publish(*topic_records("other", [1]))
    assert (told, sending.manager.unknown_destinations) == ({}, 2)
    sending.publish(election("t", 4, 1))
    assert (told, sending.manager.unknown_destinations) == ({4: "NONE"}, 1)
    sending.publish(fencing(3, fenced=False))
    assert (sending.requested(3), sending.manager.unknown_destinations) == ([{7: [2]}], 0)
    sending.respond(3, (7, {2: 0}))
    assert told == {2: "NONE", 4: "NONE"}


def test_a_topic_that_is_deleted_meanwhile_has_no_leader_to_wait_for() -> None:
    sending = Sending()
    told = sending.send(COMMIT, 4)
    sending.local.errors["t", 4] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    sending.publish(RemoveTopicRecord(topic_id=topic_id("t")))
    assert told == {4: "UNKNOWN_TOPIC_OR_PARTITION"}
    assert sending.send(COMMIT, 4) == {4: "UNKNOWN_TOPIC_OR_PARTITION"}


def test_queued_markers_do_not_wait_for_a_broker_that_leads_no_more() -> None:
    sending = Sending()
    sending.send(COMMIT, 1)
    queued, kept = sending.send(OTHER, 1, 3), sending.send(COMMIT._replace(producer_id=9), 1)
    sending.publish(election("t", 3, 3))
    assert (queued, kept) == ({1: AGAIN.name, 3: AGAIN.name}, {})
    sending.respond(2, (7, {1: 0}))
    assert sending.requested(2) == [{7: [1]}, {9: [1]}]


# ---- coordinators that have resigned


def test_what_waits_of_a_coordinator_that_has_resigned_is_never_sent() -> None:
    sending, current = Sending(), [True]
    under_way = sending.send(COMMIT, 1, current=current)
    queued, unknown = sending.send(OTHER, 1, current=current), sending.send(OTHER, 4, current=current)
    current.append(False)
    sending.publish(election("t", 4, 2))
    assert unknown == {4: "NOT_COORDINATOR"}
    sending.respond(2, (7, {1: 0}))
    assert (under_way, queued) == ({1: "NONE"}, {1: "NOT_COORDINATOR"})
    assert len(sending.channels[2].sent) == 1
    sending.send(COMMIT, 1)
    assert sending.channels[2].under_way == 1
