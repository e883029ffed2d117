"""What classic consumers put into the opaque fields of JoinGroup and SyncGroup: a version (int16), and a message.

A version that is newer than we know is read as the newest that we know. Source: ConsumerProtocol.
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
    """These bytes are not what a consumer of the classic protocol writes."""


def version_of(data: bytes) -> int:
    """In which version to read `data`, and to answer whoever wrote it. Raises EmbeddedProtocolError."""
    version = int.from_bytes(data[:_VERSION_BYTES], "big", signed=True)
    if len(data) < _VERSION_BYTES or version < 0:
        raise EmbeddedProtocolError("it does not begin with a version")
    return min(version, _NEWEST)


def _read(kind: type[M], data: bytes) -> M:
    version = version_of(data)
    try:
        read = decoder(kind, version, MAX_ELEMENTS)
        message, _ = read(data, _VERSION_BYTES, len(data))  # whatever follows is not ours
    except ProtocolError as error:
        raise EmbeddedProtocolError(str(error)) from error
    return message


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a consumer says of itself when it joins. Raises EmbeddedProtocolError."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What the leader gave to a consumer. Raises EmbeddedProtocolError."""
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
    """Partitions by their topics' ids; topics that do not exist are left out."""
    owned: dict[Uuid, frozenset[int]] = {}
    for topic in named:
        found = image.topics.get(topic.topic)
        if found is not None:
            owned[found.topic_id] = owned.get(found.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned
