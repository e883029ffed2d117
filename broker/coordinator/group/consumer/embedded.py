"""The consumer protocol in the opaque fields of JoinGroup and SyncGroup: a version (int16), and a message.

A version above the newest known one is read as that. Source: ConsumerProtocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from barnabas.broker.coordinator.group.consumer.consumer_member import PartitionEpochs, Partitions
from barnabas.broker.metadata.image import MetadataImage
from barnabas.protocol.codec import MAX_ELEMENTS, decoder, encode
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid

M = TypeVar("M", bound=Message)
_NEWEST: Final = 3
_VERSION_BYTES: Final = 2


class EmbeddedProtocolError(ValueError):
    """The bytes are not a message of the consumer protocol."""


def version_of(data: bytes) -> int:
    """The version in which to read `data`, and to write the response. Raises EmbeddedProtocolError."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        raise EmbeddedProtocolError("it does not begin with a version")
    return min(version, _NEWEST)


def _read(kind: type[M], data: bytes) -> M:
    version = version_of(data)
    try:
        read = decoder(kind, version, MAX_ELEMENTS)
        message, _ = read(data, _VERSION_BYTES, len(data))  # fields of newer versions follow
    except ProtocolError as error:
        raise EmbeddedProtocolError(str(error)) from error
    return message


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """The subscription of a consumer that joins. Raises EmbeddedProtocolError."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """The assignment of a consumer by the group's leader. Raises EmbeddedProtocolError."""
    return _read(ConsumerProtocolAssignment, data)


def write_assignment(
    partitions: Partitions | PartitionEpochs, image: MetadataImage, subscription: bytes
) -> bytes:
    """An assignment, in the version of its reader's `subscription`; topics that do not exist are left out."""
    version = version_of(subscription)
    topics = [
        ConsumerProtocolAssignment.TopicPartition(
            topic=image.topic_names[topic_id], partitions=sorted(partitions[topic_id])
        )
        for topic_id in partitions
        if topic_id in image.topic_names
    ]
    message = ConsumerProtocolAssignment(assigned_partitions=topics)
    return version.to_bytes(_VERSION_BYTES, "big") + encode(message, version)


def by_id(
    named: Sequence[ConsumerProtocolSubscription.TopicPartition]
    | Sequence[ConsumerProtocolAssignment.TopicPartition],
    image: MetadataImage,
) -> Mapping[Uuid, frozenset[int]]:
    """Partitions by their topics' ids. Those that do not exist are left out: a topic may have been created again with
    fewer partitions than the member has of the one before, and the assignors rely on assigned partitions to exist."""
    owned: dict[Uuid, frozenset[int]] = {}
    for topic in named:
        found = image.topics.get(topic.topic)
        if found is not None:
            exist = frozenset(index for index in topic.partitions if index in found.partitions)
            owned[found.topic_id] = owned.get(found.topic_id, frozenset()) | exist
    return owned
