"""The input and the result of an assignor.

Source: org.apache.kafka.coordinator.group.api.assignor: GroupSpec, MemberSubscription, SubscribedTopicDescriber.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from barnabas.broker.coordinator.group.consumer.consumer_member import Partitions
from barnabas.protocol.wire import Uuid


class MemberSpec(NamedTuple):
    """A member: the topics that it is subscribed to and that exist, and what it was assigned before."""

    topics: Collection[Uuid]
    assigned: Partitions
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group. The order of `members` counts: the first ones keep, or get, one partition more.

    `partition_counts` has the size of each subscribed topic; `is_homogeneous`: all members are subscribed to the same
    topics; `assigned` has the partitions that are assigned already.
    """

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[Uuid, int]
    is_homogeneous: bool
    assigned: Mapping[Uuid, Collection[int]]


Assign = Callable[[GroupSpec], dict[str, Partitions]]
"""An assignor: returns the new assignment of each member; members without partitions may be missing."""
