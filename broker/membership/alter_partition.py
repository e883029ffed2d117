"""AlterPartitionManager: brings changes of ISRs to the controller, and its results to the partitions.

One request is under way at a time; it has all changes that are not answered yet, one of each partition. Changes are
never dropped: what the controller rejects as a whole, or does not mention, is sent again.
Source: kafka.server.DefaultAlterPartitionManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final, NamedTuple

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, Submit
from barnabas.broker.pending import Pending
from barnabas.broker.replica.isr import IsrChangeResult, IsrProposal
from barnabas.broker.waiting.timer import Timer
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import AlterPartitionRequest, AlterPartitionResponse
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid

logger = logging.getLogger("barnabas.membership")

RETRY_BACKOFF_MS: Final = 50

_Place = tuple[Uuid, int]
"""A partition: the id of its topic, and its number."""


class _Change(NamedTuple):
    proposal: IsrProposal
    result: Pending[IsrChangeResult]


class AlterPartitionManager:
    """An IsrChanges over a ControllerChannel. Lives on the event loop."""

    def __init__(
        self, submit: Submit, timer: Timer, *, node_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        """`submit` is that of a channel of its own, so that other requests delay no change."""
        self._submit = submit
        self._timer = timer
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._unanswered: dict[_Place, _Change] = {}
        self._is_busy = False
        """A request is under way, or will be sent after a backoff."""

    def submit(self, proposal: IsrProposal) -> Pending[IsrChangeResult]:
        """Completes with the controller's result, however long that takes, and never before it returns.

        OPERATION_NOT_ATTEMPTED while an earlier change of the partition is not answered.
        """
        result: Pending[IsrChangeResult] = Pending()
        place = proposal.topic_id, proposal.partition
        if place in self._unanswered:
            refused = IsrChangeResult(ErrorCode.OPERATION_NOT_ATTEMPTED)
            self._timer.call_at(self._timer.time(), lambda: result.complete(refused))
            return result
        self._unanswered[place] = _Change(proposal, result)
        if not self._is_busy:
            self._send_in(0)
        return result

    @property
    def unanswered(self) -> int:
        """The changes that wait for a result."""
        return len(self._unanswered)

    def _send_in(self, delay_ms: int) -> None:
        """Sends in a moment, so that changes which are found together go together."""
        self._is_busy = True
        self._timer.call_at(self._timer.time() + delay_ms / 1000, self._send)

    def _send(self) -> None:
        sent = dict(self._unanswered)
        request = alter_partition(
            self._node_id, self._broker_epoch(), (each.proposal for each in sent.values())
        )
        self._submit(request).add_done_callback(partial(self._responded, sent))

    def _responded(self, sent: dict[_Place, _Change], response: Message | ChannelError) -> None:
        if isinstance(response, ChannelClosed):
            return
        if not isinstance(response, AlterPartitionResponse) or response.error_code:
            logger.warning(
                "The controller rejects changes of ISRs, they are sent again: %s", _reason(response)
            )
            self._send_in(RETRY_BACKOFF_MS)
            return
        try:
            self._answered(sent, response)
        finally:
            self._is_busy = False
            if self._unanswered:
                self._send_in(0)

    def _answered(self, sent: dict[_Place, _Change], response: AlterPartitionResponse) -> None:
        for place, result in _results(response):
            change = self._unanswered.get(place)
            if change is None or change is not sent.get(place):
                logger.debug("the controller answers for a partition that was not asked for: %s", place)
                continue
            del self._unanswered[place]
            if result.error is not ErrorCode.NONE:
                logger.info("The controller rejects %s: %s", change.proposal, result.error.name)
            change.result.complete(result)


def alter_partition(
    node_id: int, broker_epoch: int, proposals: Iterable[IsrProposal]
) -> AlterPartitionRequest:
    """The request with these proposals, one of each partition."""
    topics: dict[Uuid, AlterPartitionRequest.TopicData] = {}
    for proposal in proposals:
        topic = topics.setdefault(
            proposal.topic_id, AlterPartitionRequest.TopicData(topic_id=proposal.topic_id)
        )
        topic.partitions.append(
            AlterPartitionRequest.PartitionData(
                partition_index=proposal.partition,
                leader_epoch=proposal.leader_epoch,
                new_isr_with_epochs=[
                    AlterPartitionRequest.BrokerState(broker_id=node, broker_epoch=epoch)
                    for node, epoch in proposal.isr
                ],
                leader_recovery_state=proposal.leader_recovery_state,
                partition_epoch=proposal.partition_epoch,
            )
        )
    return AlterPartitionRequest(broker_id=node_id, broker_epoch=broker_epoch, topics=list(topics.values()))


def _results(response: AlterPartitionResponse) -> Iterator[tuple[_Place, IsrChangeResult]]:
    for topic in response.topics:
        for part in topic.partitions:
            yield (
                (topic.topic_id, part.partition_index),
                IsrChangeResult(
                    _code(part.error_code), part.leader_epoch, part.partition_epoch, tuple(part.isr)
                ),
            )


def _code(number: int) -> ErrorCode:
    """Codes of a later Kafka are unknown errors."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


def _reason(response: Message | ChannelError) -> str:
    if isinstance(response, AlterPartitionResponse):
        return _code(response.error_code).name
    return str(getattr(response, "reason", "an unexpected response"))
