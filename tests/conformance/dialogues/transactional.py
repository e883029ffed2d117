"""Producers with transactional ids, for dialogues about transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.producers import DescribeTransactionsRequest
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from tests.conformance.dialogue_client import DialogueClient

LAST_OF_CLIENTS, FIRST_OF_BROKERS = 3, 4
"""Versions of AddPartitionsToTxn that clients send, and those that brokers send."""

WITH_EPOCH_BUMP: Final = 5
"""The first version of EndTxn with transaction version 2."""

TRANSACTION: Final = 1

LONG_MS: Final = 600_000
"""A timeout longer than any dialogue."""

NOT_YET: Final = (
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
Partitions = Mapping[str, Sequence[int]]


def init(**fields: Any) -> InitProducerIdRequest:
    fields.setdefault("transaction_timeout_ms", LONG_MS)
    return InitProducerIdRequest(**fields)


def topics_of(partitions: Partitions) -> list[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]:
    return [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=list(indexes))
        for name, indexes in partitions.items()
    ]


def sorted_results(answer: Any) -> object:
    """The results, sorted: Kafka returns partitions in hash order."""
    if answer.results_by_topic_v3_and_below or not answer.results_by_transaction:
        return answer.throttle_time_ms, answer.error_code, _by_topic(answer.results_by_topic_v3_and_below)
    return (
        answer.throttle_time_ms,
        answer.error_code,
        sorted(
            (result.transactional_id, _by_topic(result.topic_results))
            for result in answer.results_by_transaction
        ),
    )


def _by_topic(topics: Iterable[Any]) -> list[tuple[Any, Any, Any]]:
    return sorted(
        (topic.name, result.partition_index, result.partition_error_code)
        for topic in topics
        for result in topic.results_by_partition
    )


class Producer:
    """A producer with a transactional id that no other dialogue uses."""

    def __init__(self, client: DialogueClient, word: str = "tx", *, is_initialized: bool = True) -> None:
        self.client = client
        self.transactional_id = client.topic(word)
        self.id, self.epoch = -1, -1
        find = FindCoordinatorRequest(key=self.transactional_id, key_type=TRANSACTION, coordinator_keys=[])
        client.request_until(find, lambda answer: answer.error_code == 0, 3)
        self.settle()
        if is_initialized:
            self.initialize()

    def settle(self) -> None:
        """Waits until the coordinator has loaded and no transaction is about to end."""
        client = self.client
        client.request_until(
            self.described(),
            lambda answer: (
                answer.transaction_states[0].error_code not in NOT_YET
                and not answer.transaction_states[0].transaction_state.startswith("Prepare")
            ),
            0,
        )

    def described(self) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=[self.transactional_id])

    def initialize(self, timeout_ms: int = LONG_MS) -> None:
        """Initializes the producer id; notes nothing."""
        request = init(transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms)
        answer = self.client.request_until(request, lambda answer: answer.error_code not in NOT_YET, 4)
        assert answer.error_code == 0, answer
        self.id, self.epoch = answer.producer_id, answer.producer_epoch

    def init(self, version: int | None = None, **fields: Any) -> Any:
        """Waits for the end of a pending transaction, then initializes the producer id; notes the response."""
        request = init(transactional_id=self.transactional_id, **fields)
        self.settle()
        answer = self.client.request(request, version)
        if answer.error_code == 0:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def add(self, partitions: Partitions, version: int = LAST_OF_CLIENTS, **fields: Any) -> Any:
        """Adds partitions as a client, or from version 4 on as a broker; notes the response."""
        return self.client.request(
            self.addition(partitions, version, **fields), version, noting=sorted_results
        )

    def addition(
        self, partitions: Partitions, version: int = LAST_OF_CLIENTS, **fields: Any
    ) -> AddPartitionsToTxnRequest:
        names: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        } | fields
        if version >= FIRST_OF_BROKERS:
            return AddPartitionsToTxnRequest(transactions=[self.part(partitions, **names)])
        return AddPartitionsToTxnRequest(
            **{f"v3_and_below_{name}": value for name, value in names.items()},
            v3_and_below_topics=topics_of(partitions),
        )

    def part(
        self, partitions: Partitions, **fields: Any
    ) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
        """The part of a broker's request for one transaction."""
        values: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
            "verify_only": False,
        } | fields
        return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(topics=topics_of(partitions), **values)

    def open(self, partitions: Partitions) -> None:
        """Opens a transaction with these partitions; notes nothing."""
        request = self.addition(partitions)

        def is_added(answer: Any) -> bool:
            codes = {
                result.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for result in topic.results_by_partition
            }
            assert codes <= {0, *NOT_YET}, answer
            return codes == {0}

        self.client.request_until(request, is_added, LAST_OF_CLIENTS)

    def end(self, *, committed: bool, version: int | None = None, **fields: Any) -> Any:
        values: dict[str, Any] = {
            "transactional_id": self.transactional_id,
            "producer_id": self.id,
            "producer_epoch": self.epoch,
        } | fields
        answer = self.client.request(EndTxnRequest(committed=committed, **values), version)
        if answer.error_code == 0 and answer.producer_epoch >= 0 and answer.producer_id >= 0:
            used = self.client.version if version is None else version
            if used >= WITH_EPOCH_BUMP:
                self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    def note_state(self) -> None:
        """Notes the state of the transaction once none is about to end."""
        self.settle()
        self.client.request(self.described(), 0, noting=_described)


def _described(answer: Any) -> object:
    for state in answer.transaction_states:
        state.topics = sorted(state.topics, key=lambda topic: str(topic.topic))
    return answer
