"""The hash by which a group detects changes of its topics (KIP-1101).

It is written in the group's record and has to equal Apache Kafka's, or a group would rebalance once whenever the other
broker takes over. A topic's hash is the XXH3 of these bytes, integers little-endian:

    int8 0 | int64, int64 the topic's id | name in UTF-16, int32 its length | int32 partitions
    for each partition: int32 index | for each rack, sorted: int32 length | rack in UTF-16, int32 length

A group's is that of the int64 hashes of its topics, in the order of their names; 0 where it has no topics. All are
int64. Source: org.apache.kafka.coordinator.group.Utils (computeTopicHash, computeGroupHash), and hash4j's putString.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from functools import lru_cache

from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topics import TopicImage


class TopicHashes:
    """Hashes of topics, each computed once until the topic changes."""

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def forget(self, topic: str) -> None:
        self._known.pop(topic, None)

    def group_hash(self, topics: Iterable[str], image: MetadataImage) -> int:
        """The hash of a group that is subscribed to `topics`; missing topics do not count."""
        existing = image.topics
        hashes = [self._of(existing[name], image) for name in sorted(topics, key=_order) if name in existing]
        return _xxh3(struct.pack(f"<{len(hashes)}q", *hashes)) if hashes else 0

    def _of(self, topic: TopicImage, image: MetadataImage) -> int:
        known = self._known.get(topic.name)
        if known is None:
            known = self._known[topic.name] = topic_hash(topic, image.brokers)
        return known


def topic_hash(topic: TopicImage, brokers: Mapping[int, BrokerRegistration]) -> int:
    """The hash of one topic: its id, name, partitions, and the racks in which those have replicas."""
    most, least = struct.unpack(">qq", topic.topic_id)
    parts = [b"\0", struct.pack("<qq", most, least), _string(topic.name), _int(len(topic.partitions))]
    for index in range(len(topic.partitions)):
        parts.append(_int(index))
        for rack in _racks(topic.partitions[index].replicas, brokers):
            parts += (_int(_length(rack)), _string(rack))
    return _xxh3(b"".join(parts))


def _racks(replicas: Iterable[int], brokers: Mapping[int, BrokerRegistration]) -> list[str]:
    found = (brokers[replica].rack for replica in replicas if replica in brokers)
    return sorted((rack for rack in found if rack is not None), key=_order)


def _string(text: str) -> bytes:
    encoded = text.encode("utf-16-le")
    return encoded + _int(len(encoded) // 2)


def _length(text: str) -> int:
    """Java's: in UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


def _int(value: int) -> bytes:
    return value.to_bytes(4, "little", signed=True)


def _order(text: str) -> bytes:
    """Java orders strings by UTF-16 code units."""
    return text.encode("utf-16-be")


@lru_cache(maxsize=1)
def _hasher() -> object:
    from xxhash import xxh3_64_intdigest

    return xxh3_64_intdigest


def _xxh3(data: bytes) -> int:
    digest: int = _hasher()(data)  # type: ignore[operator]
    return digest - (1 << 64) if digest >> 63 else digest
