"""A producer with a transactional id, for dialogues about transactions in partitions and their consumers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.producers import DescribeProducersRequest, DescribeTransactionsRequest
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.control import control_record_type
from barnabas.protocol.records.entries import batches
from barnabas.protocol.wire import Uuid
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues.words import IDS_IN_PRODUCE, produce

GROUP, TRANSACTION = 0, 1
ADDS_IMPLICITLY: Final = 12
"""The first version of Produce that adds partitions to the transaction (KIP-890)."""

_ADD, _END_BEFORE_BUMPS, _END_WITH_BUMP, _INIT = 3, 4, 5, 4


def coordinator_of(client: DialogueClient, key: str, key_type: int) -> None:
    """Creates the coordinator's topic if it is missing, and waits for a leader of the key's partition."""
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    client.request_until(request, lambda answer: answer.coordinators[0].error_code == 0, 4)


class Transactor:
    """Writes in transactions to a topic with two partitions. Only `send` notes its result.

    With `bumps` each transaction has its own epoch (transaction version 2).
    """

    def __init__(
        self, client: DialogueClient, word: str = "tx", topic: str | None = None, bumps: bool | None = None
    ):
        self.client = client
        self.name = topic or client.create(f"{word}-topic", 2)
        self.transactional_id = client.topic(word)
        self.bumps = client.version >= ADDS_IMPLICITLY if bumps is None else bumps
        coordinator_of(client, self.transactional_id, TRANSACTION)
        self.initialize()

    def initialize(self) -> None:
        """Gets a producer id and epoch; aborts the transaction of an earlier epoch and fences that epoch."""
        request = InitProducerIdRequest(transactional_id=self.transactional_id, transaction_timeout_ms=60_000)
        given = self.client.request_until(request, lambda answer: answer.error_code == 0, _INIT)
        self.id, self.epoch = given.producer_id, given.producer_epoch
        self.sequences = [0, 0]

    def add(self, *partitions: int) -> None:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=self.name, partitions=list(partitions))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[topic],
        )
        answer = self.client.request_until(
            request,
            lambda it: it.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code != 51,
            _ADD,
        )
        results = answer.results_by_topic_v3_and_below[0].results_by_partition
        assert not any(result.partition_error_code for result in results), results

    def begin(self, *partitions: int) -> None:
        """Adds partitions before the first batch where Produce does not."""
        if not self.bumps:
            self.add(*partitions)

    def batch(self, *values: bytes, sequence: int, **fields: Any) -> bytes:
        return batch(
            *values,
            base_sequence=sequence,
            is_transactional=fields.pop("is_transactional", True),
            producer_id=fields.pop("producer_id", self.id),
            producer_epoch=fields.pop("epoch", self.epoch),
            **fields,
        )

    def produce_request(
        self, *records: bytes, transactional_id: str | None = None, acks: int = -1
    ) -> ProduceRequest:
        client = self.client
        topic: str | Uuid = client.id_of(self.name) if client.version >= IDS_IN_PRODUCE else self.name
        tid = self.transactional_id if transactional_id is None else transactional_id
        return produce(topic, *records, transactional_id=tid, acks=acks)

    def send(self, *values: bytes, sequence: int, transactional_id: str | None = None, **fields: Any) -> None:
        """Sends a batch to the first partition; notes the result."""
        payload = self.batch(*values or (b"v",), sequence=sequence, **fields)
        self.client.request(self.produce_request(payload, transactional_id=transactional_id), noting=outcomes)

    def write(self, *values: bytes, partition: int = 0) -> None:
        """Appends a batch in the transaction, which must succeed, in a version that fits `bumps`."""
        version = ADDS_IMPLICITLY if self.bumps else ADDS_IMPLICITLY - 1
        payload = self.batch(*values, sequence=self.sequences[partition])
        data = ProduceRequest.PartitionProduceData(index=partition, records=payload)
        topic = ProduceRequest.TopicProduceData(name=self.name, partition_data=[data])
        request = ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=10_000, topic_data=[topic]
        )
        retried = (51, 19)  # the previous transaction has not ended in all partitions
        answer = self.client.request_until(
            request, lambda it: it.responses[0].partition_responses[0].error_code not in retried, version
        )
        assert answer.responses[0].partition_responses[0].error_code == 0, answer
        self.sequences[partition] += len(values)

    def end(self, *, commit: bool) -> None:
        """Ends the transaction and waits until all of its markers are written."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )
        version = _END_WITH_BUMP if self.bumps else _END_BEFORE_BUMPS
        answer = self.client.request_until(request, lambda it: it.error_code != 51, version)
        assert answer.error_code == 0, answer
        done = "CompleteCommit" if commit else "CompleteAbort"
        described = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        self.client.request_until(described, lambda it: it.transaction_states[0].transaction_state == done, 0)
        if self.bumps:
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            self.sequences = [0, 0]


def outcomes(answer: Any) -> object:
    """The result of each partition of a Produce request."""
    return sorted(
        (result.index, result.error_code, result.base_offset, result.log_start_offset)
        for topic in answer.responses
        for result in topic.partition_responses
    )


def marker(
    producer_id: int,
    epoch: int,
    topics: Mapping[str, Iterable[int]],
    *,
    commit: bool = True,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> WriteTxnMarkersRequest.WritableTxnMarker:
    return WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=epoch,
        transaction_result=commit,
        coordinator_epoch=coordinator_epoch,
        transaction_version=transaction_version,
        topics=[
            WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=list(indexes))
            for name, indexes in topics.items()
        ],
    )


def note_log(client: DialogueClient, name: str, partition: int = 0, isolation_level: int = 0) -> None:
    """Notes what a consumer reads from a partition: batches, their producers and records, and aborted transactions."""
    from tests.conformance.dialogues.words import fetch, fetch_topic
    from tests.conformance.dialogues.words import partition as fetch_partition

    answer = client.connection.request(
        fetch(fetch_topic(name, [fetch_partition(partition)]), isolation_level=isolation_level), 12
    )
    assert isinstance(answer, FetchResponse)
    data = answer.responses[0].partitions[0]
    client.note((data.error_code, data.high_watermark, data.last_stable_offset))
    note_batches(client, bytes(data.records or b""))  # type: ignore[arg-type]
    client.note([(it.producer_id >= 0, it.first_offset) for it in data.aborted_transactions or ()])


def note_batches(client: DialogueClient, data: bytes) -> None:
    """Notes batches without producer ids and what depends on them."""
    for found in batches(data):
        assert isinstance(found, RecordBatch)
        found.ensure_valid()
        client.note((found.base_offset, found.attributes, found.producer_epoch, found.base_sequence))
        client.note(
            [
                (control_record_type(it.key).name, it.value) if found.is_control else it.value
                for it in found.records()
            ]
        )


def note_producers(client: DialogueClient, name: str, *partitions: int) -> None:
    """Notes the producer state of partitions."""
    request = DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name=name, partition_indexes=list(partitions or (0,)))]
    )
    client.request(request, 0)
