"""The protocols that the members of a classic group have in common, and the topics in a consumer's metadata.

Source: ClassicGroup (supportsProtocols, selectProtocol, computeSubscribedTopics).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.broker.coordinator.group.classic.classic_member import ClassicGroupMember
from barnabas.broker.coordinator.java_order import map_order, string_hash
from barnabas.protocol.codec import MAX_ELEMENTS, decoder
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_VERSION_BYTES: Final = 2


class ProtocolCounts:
    """How many members have each protocol; counted as they come and go, since every JoinGroup needs it."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, member: ClassicGroupMember) -> None:
        self._counts.update(set(member.protocol_names))

    def remove(self, member: ClassicGroupMember) -> None:
        for name in set(member.protocol_names):
            self._counts[name] -= 1
            if not self._counts[name]:
                del self._counts[name]

    def has_all(self, name: str, size: int) -> bool:
        """Whether all of a group's `size` members have the protocol."""
        return self._counts[name] == size

    def common(self, size: int) -> set[str]:
        """The protocols that all of a group's `size` members have."""
        return {name for name, count in self._counts.items() if count == size}


def select_protocol(members: Sequence[ClassicGroupMember], counts: ProtocolCounts) -> str:
    """The common protocol that most members prefer; Java's order decides a tie."""
    candidates = counts.common(len(members))
    votes = Counter(member.vote(candidates) for member in members)
    return max(map_order(votes, string_hash), key=votes.__getitem__)


def subscribed_topics(members: Iterable[ClassicGroupMember], protocol_name: str) -> frozenset[str] | None:
    """The topics that the members are subscribed to; None where the metadata of one cannot be parsed.

    A subscription begins with its version; in every version the topics come first, as in version 0.
    """
    read = decoder(ConsumerProtocolSubscription, 0, MAX_ELEMENTS)
    topics: set[str] = set()
    for member in members:
        metadata = member.metadata(protocol_name)
        if len(metadata) < _VERSION_BYTES:
            return None
        try:
            subscription, _ = read(metadata, _VERSION_BYTES, len(metadata))
        except ProtocolError:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
