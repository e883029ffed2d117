"""RemoteCoordinators: verifies partitions with transaction coordinators in other brokers, or adds them (KIP-890).

Each broker has one AddPartitionsToTxn under way. The transactions that gather meanwhile go with the next, once each:

    a later request of the same transactional id has | the earlier one gets
    -------------------------------------------------+--------------------------------------------------------------
    a newer epoch                                    | INVALID_PRODUCER_EPOCH
    the same epoch                                   | NETWORK_EXCEPTION: its client has given up, and sends it again
    an older epoch                                   | (the later one gets INVALID_PRODUCER_EPOCH)

Source: org.apache.kafka.server.transaction.AddPartitionsToTxnManager.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final

from barnabas.broker.coordinator.transaction.broker_channels import BrokerChannels, error_of
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.metadata.internal_topics import TRANSACTION_STATE, partition_for
from barnabas.broker.node_client.channel import NodeClientError, UnsupportedVersion
from barnabas.broker.pending import Pending, completed
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.transactions import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from barnabas.protocol.schema import Message
from barnabas.storage.offsets import TopicPartition

logger = logging.getLogger("barnabas.transactions")

Codes = Mapping[TopicPartition, ErrorCode]

NEWEST_VERSION: Final = 5
OLDEST_VERSION: Final = 4
"""The versions that carry many transactions. The second has no TRANSACTION_ABORTABLE."""

_rate_limit: Final = RateLimit()


class _Question:
    """The partitions of one transaction."""

    __slots__ = ("partitions", "pending", "producer")

    def __init__(self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]) -> None:
        self.producer = producer
        self.partitions = partitions
        self.pending: Pending[Codes] = Pending()

    def answer_all(self, error: ErrorCode) -> None:
        self.pending.complete(dict.fromkeys(self.partitions, error))

    def answer(self, codes: Codes) -> None:
        """One that the response lacks is asked again."""
        missing = ErrorCode.NETWORK_EXCEPTION
        self.pending.complete({partition: codes.get(partition, missing) for partition in self.partitions})


class _Coordinator:
    """The questions for one broker, by transactional id; `is_busy` while a request is under way."""

    __slots__ = ("is_busy", "questions")

    def __init__(self) -> None:
        self.questions: dict[str, _Question] = {}
        self.is_busy = False


class RemoteCoordinators:
    """The coordinators of transactions by the image. Lives on the event loop."""

    def __init__(self, brokers: BrokerChannels) -> None:
        self._brokers = brokers
        self._coordinators: dict[int, _Coordinator] = {}

    def is_local(self, transactional_id: str) -> bool:
        """Whether this broker coordinates the transactions of this id."""
        return self._coordinator_of(transactional_id) == self._brokers.node_id

    def _coordinator_of(self, transactional_id: str) -> int | None:
        topic = self._brokers.image().topics.get(TRANSACTION_STATE)
        if topic is None:
            return None
        partition = topic.partitions[partition_for(transactional_id, len(topic.partitions))]
        return self._brokers.alive(partition.leader)

    def ask(self, producer: TransactionalProducer, partitions: Sequence[TopicPartition]) -> Pending[Codes]:
        """The coordinator's code for each partition; see `TransactionVerifier.verify`.

        COORDINATOR_NOT_AVAILABLE: none is alive. NETWORK_EXCEPTION: it did not respond. NONE where it is too old to
        verify anything.
        """
        node_id = self._coordinator_of(producer.transactional_id)
        if node_id is None:
            return completed(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        coordinator = self._coordinators.setdefault(node_id, _Coordinator())
        question = _Question(producer, partitions)
        earlier = coordinator.questions.get(producer.transactional_id)
        if earlier is not None and earlier.producer.producer_epoch > producer.producer_epoch:
            question.answer_all(ErrorCode.INVALID_PRODUCER_EPOCH)
            return question.pending
        coordinator.questions[producer.transactional_id] = question
        if earlier is not None:
            is_older = earlier.producer.producer_epoch < producer.producer_epoch
            earlier.answer_all(ErrorCode.INVALID_PRODUCER_EPOCH if is_older else ErrorCode.NETWORK_EXCEPTION)
        if not coordinator.is_busy:
            self._send(node_id, coordinator)
        return question.pending

    def _send(self, node_id: int, coordinator: _Coordinator) -> None:
        questions, coordinator.questions = coordinator.questions, {}
        coordinator.is_busy = True
        self._send_in_version(node_id, coordinator, questions, NEWEST_VERSION)

    def _send_in_version(
        self, node_id: int, coordinator: _Coordinator, questions: Mapping[str, _Question], version: int
    ) -> None:
        channel = self._brokers.channel(node_id)
        if channel is None:
            self._answer_all(node_id, coordinator, questions, ErrorCode.NETWORK_EXCEPTION)
            return

        def responded(result: Message | NodeClientError) -> None:
            if isinstance(result, UnsupportedVersion) and version > OLDEST_VERSION:
                self._send_in_version(node_id, coordinator, questions, version - 1)
            else:
                self._responded(node_id, coordinator, questions, result)

        answer = channel.send(
            _request(list(questions.values())),
            version=version,
            timeout_ms=self._brokers.request_timeout_ms(),
        )
        answer.add_done_callback(responded)

    def _responded(
        self,
        node_id: int,
        coordinator: _Coordinator,
        questions: Mapping[str, _Question],
        result: Message | NodeClientError,
    ) -> None:
        if not isinstance(result, AddPartitionsToTxnResponse):
            is_verified = isinstance(result, UnsupportedVersion)
            _rate_limit.warning(
                logger,
                node_id,
                "broker %d did not verify transactions%s: %s",
                node_id,
                ", which go on without" if is_verified else "",
                result,
            )
            error = ErrorCode.NONE if is_verified else ErrorCode.NETWORK_EXCEPTION
            self._answer_all(node_id, coordinator, questions, error)
        elif result.error_code:
            self._answer_all(node_id, coordinator, questions, _of_all(result.error_code))
        else:
            coordinator.is_busy = False
            codes = _codes(result)
            for transactional_id, question in questions.items():
                question.answer(codes.get(transactional_id, {}))
            self._continue(node_id, coordinator)

    def _answer_all(
        self, node_id: int, coordinator: _Coordinator, questions: Mapping[str, _Question], error: ErrorCode
    ) -> None:
        coordinator.is_busy = False
        for question in questions.values():
            question.answer_all(error)
        self._continue(node_id, coordinator)

    def _continue(self, node_id: int, coordinator: _Coordinator) -> None:
        if coordinator.questions and not coordinator.is_busy:
            self._send(node_id, coordinator)


def _request(questions: Sequence[_Question]) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=[_transaction(question) for question in questions])


def _transaction(question: _Question) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    producer = question.producer
    topics: dict[str, list[int]] = {}
    for name, index in question.partitions:
        topics.setdefault(name, []).append(index)
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        verify_only=not producer.supports_epoch_bump,
        topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in topics.items()
        ],
    )


def _of_all(code: int) -> ErrorCode:
    """The error of a whole request. Producers know nothing of the authorization of brokers."""
    error = error_of(code)
    return ErrorCode.INVALID_TXN_STATE if error is ErrorCode.CLUSTER_AUTHORIZATION_FAILED else error


def _codes(response: AddPartitionsToTxnResponse) -> dict[str, dict[TopicPartition, ErrorCode]]:
    """The codes of the partitions, by transactional id."""
    return {
        result.transactional_id: {
            (topic.name, partition.partition_index): error_of(partition.partition_error_code)
            for topic in result.topic_results
            for partition in topic.results_by_partition
        }
        for result in response.results_by_transaction
    }
