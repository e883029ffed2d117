"""What an assignor is told, and what it answers.

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
    """A group. The order of `members` counts: who comes first is the first to keep one more, and to get one more.

    `partition_counts` has the size of each topic that anybody is subscribed to; `is_homogeneous` says that all are
    subscribed to the same ones; `assigned` has the partitions that somebody was assigned before.
    """

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[Uuid, int]
    is_homogeneous: bool
    assigned: Mapping[Uuid, Collection[int]]


Assign = Callable[[GroupSpec], dict[str, Partitions]]
"""An assignor: what each member is assigned from now on; who gets nothing may be missing."""
