"""DirectoryAssignments: reports to the controller in which log directories this broker's replicas are (KIP-858).

The controller has to know, so that it elects other leaders when a directory fails. The newest report of a replica
counts; one request is under way at a time; what fails or is not mentioned is sent again until the replica is gone.
It does what controller.directory_assignment does for a node that is alone.
Source: org.apache.kafka.server.AssignmentsManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Final, NamedTuple, Protocol

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, Submit
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.pending import Pending, completed
from barnabas.broker.waiting.timer import Timer
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid

logger = logging.getLogger("barnabas.membership")

MAX_ASSIGNMENTS_PER_REQUEST: Final = 2250
DEADLINE_MS: Final = 60_000
BACKOFF_MS: Final = 100
BACKOFF_MAX_MS: Final = 10_000


class Replica(Protocol):
    """The part of a Partition that names it."""

    @property
    def topic_id(self) -> Uuid: ...

    @property
    def index(self) -> int: ...


class Place(NamedTuple):
    """A replica of this broker."""

    topic_id: Uuid
    partition: int


class _Report(NamedTuple):
    directory_id: Uuid
    acknowledged: Pending[bool]


class DirectoryAssignments:
    """The reports of one broker. Lives on the event loop."""

    def __init__(
        self,
        submit: Submit,
        timer: Timer,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        image: Callable[[], MetadataImage],
        directory_of: Callable[[str, int], tuple[Replica, Uuid] | None],
    ) -> None:
        """`submit` is that of a channel of its own. `directory_of` has the replica here of a partition (topic, number)
        and the id of its directory; None where there is no replica, or it is offline or on its way to another one."""
        self._submit = submit
        self._timer = timer
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._image = image
        self._directory_of = directory_of
        self._ready: dict[Place, _Report] = {}
        self._under_way: dict[Place, _Report] = {}
        self._is_busy = False
        """A request is under way, or will be sent in a moment."""
        self._failures = 0
        self._is_closed = False

    def report(self, replica: Replica, directory_id: Uuid) -> Pending[bool]:
        """Reports the directory of a replica until the controller acknowledges it: True.

        False where the replica is gone, another report takes the place of this one, or the broker stops.
        """
        place = Place(replica.topic_id, replica.index)
        if self._is_closed or not self._is_here(place):
            return completed(False)
        known = self._ready.get(place)
        if known is not None and known.directory_id == directory_id:
            return known.acknowledged
        new = self._ready[place] = _Report(directory_id, Pending())
        if known is not None:
            known.acknowledged.complete(False)
        if not self._is_busy:
            self._send_in(0)
        return new.acknowledged

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Reports the replicas among what has changed that are not in the directory that the image has for them."""
        for name in sorted(delta.created_topics | delta.changed_topics.keys()):
            for partition in delta.partitions_of(image.topics[name]):
                if self._node_id not in partition.replicas:
                    continue
                found = self._directory_of(name, partition.partition)
                if found is not None and found[1] != partition.directory_of(self._node_id):
                    self.report(*found)

    @property
    def unacknowledged(self) -> int:
        """QueuedReplicaToDirAssignments: the reports that the controller has not acknowledged."""
        return len(self._ready) + len(self._under_way)

    # -- sending --

    def _is_here(self, place: Place) -> bool:
        """Whether this broker has such a replica, according to the newest image."""
        image = self._image()
        topic = image.topics.get(image.topic_names.get(place.topic_id, ""))
        found = None if topic is None else topic.partitions.get(place.partition)
        return found is not None and self._node_id in found.replicas

    def _send_in(self, delay_ms: int) -> None:
        """Sends in a moment, so that reports of one image go together."""
        self._is_busy = True
        self._timer.call_at(self._timer.time() + delay_ms / 1000, self._send)

    def _send(self) -> None:
        for place in [place for place in self._ready if not self._is_here(place)]:
            self._ready.pop(place).acknowledged.complete(False)
        chosen = list(islice(self._ready, MAX_ASSIGNMENTS_PER_REQUEST))
        if not chosen:
            self._is_busy = False
            return
        self._under_way = {place: self._ready.pop(place) for place in chosen}
        reports = [(report.directory_id, place) for place, report in self._under_way.items()]
        request = assign_replicas(self._node_id, self._broker_epoch(), reports)
        self._submit(request, deadline_ms=DEADLINE_MS).add_done_callback(self._responded)

    # -- responses --

    def _responded(self, response: Message | ChannelError) -> None:
        sent, self._under_way = self._under_way, {}
        if isinstance(response, ChannelClosed):
            self._abandon(sent)
            return
        acknowledged = set(_acknowledged(response))
        for place, report in sent.items():
            if (report.directory_id, place) not in acknowledged:
                self._put_back(place, report)
        self._failures = 0 if len(acknowledged) >= len(sent) else self._failures + 1
        if self._failures:
            logger.warning("Not all log directories of replicas are reported: %s", _reason(response))
        self._is_busy = False
        self._continue()
        for place, report in sent.items():
            if (report.directory_id, place) in acknowledged:
                report.acknowledged.complete(True)

    def _continue(self) -> None:
        if self._ready:
            delay_ms = min(BACKOFF_MS << (self._failures - 1), BACKOFF_MAX_MS) if self._failures else 0
            self._send_in(delay_ms)

    def _put_back(self, place: Place, report: _Report) -> None:
        """Has a report be sent again, unless there is a newer one of the replica."""
        if self._ready.setdefault(place, report) is not report:
            self._timer.call_at(self._timer.time(), partial(report.acknowledged.complete, False))

    def _abandon(self, sent: dict[Place, _Report]) -> None:
        self._is_closed = True
        abandoned = [*sent.values(), *self._ready.values()]
        self._ready = {}
        for report in abandoned:
            report.acknowledged.complete(False)


def assign_replicas(
    node_id: int, broker_epoch: int, reports: Iterable[tuple[Uuid, Place]]
) -> AssignReplicasToDirsRequest:
    """The request that reports the directories of these replicas."""
    by_directory: dict[Uuid, dict[Uuid, list[int]]] = {}
    for directory_id, (topic_id, index) in reports:
        by_directory.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
    kind = AssignReplicasToDirsRequest
    return kind(
        broker_id=node_id,
        broker_epoch=broker_epoch,
        directories=[
            kind.DirectoryData(
                id=directory_id,
                topics=[
                    kind.TopicData(
                        topic_id=topic_id,
                        partitions=[kind.PartitionData(partition_index=index) for index in indexes],
                    )
                    for topic_id, indexes in topics.items()
                ],
            )
            for directory_id, topics in by_directory.items()
        ],
    )


def _acknowledged(response: Message | ChannelError) -> list[tuple[Uuid, Place]]:
    """What the controller has recorded."""
    if not isinstance(response, AssignReplicasToDirsResponse) or response.error_code:
        return []
    return [
        (directory.id, Place(topic.topic_id, part.partition_index))
        for directory in response.directories
        for topic in directory.topics
        for part in topic.partitions
        if part.error_code == ErrorCode.NONE
    ]


def _reason(response: Message | ChannelError) -> str:
    if isinstance(response, AssignReplicasToDirsResponse):
        return f"error {response.error_code}" if response.error_code else "errors of partitions"
    return str(getattr(response, "reason", "an unexpected response"))
