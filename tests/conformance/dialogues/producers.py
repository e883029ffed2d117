"""Idempotent producers: duplicates, gaps, fencing."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.produce import FIRST, LAST, name_or_id, note_log
from tests.conformance.dialogues.words import produce

LAST_SEQUENCE = 2**31 - 1


class Producer:
    """Sends batches of `count` records with its id and a chosen epoch and sequence number."""

    def __init__(self, client: DialogueClient, word: str = "a", **configs: str) -> None:
        self.client = client
        self.name = client.create(
            word, configs={key.replace("_", "."): value for key, value in configs.items()}
        )
        self.id = self.new_id()

    def new_id(self) -> int:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        answer = self.client.request_until(request, lambda answer: answer.error_code == 0, 4)
        producer_id: int = answer.producer_id
        return producer_id

    def send(self, sequence: int, count: int = 1, epoch: int = 0, **fields: Any) -> None:
        fields.setdefault("producer_id", self.id)
        values = [b"%d" % at for at in range(count)]
        payload = batch(*values, base_sequence=sequence, producer_epoch=epoch, **fields)
        self.client.request(produce(name_or_id(self.client, self.name), payload), noting=self.outcome)

    @staticmethod
    def outcome(answer: Any) -> object:
        result = answer.responses[0].partition_responses[0]
        return result.error_code, result.base_offset, result.log_start_offset, result.log_append_time_ms


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def in_sequence(client: DialogueClient) -> None:
    producer = Producer(client)
    for sequence, count in ((0, 1), (1, 3), (4, 1)):
        producer.send(sequence, count)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def duplicates(client: DialogueClient) -> None:
    """The broker knows the last five batches, no older ones."""
    producer = Producer(client)
    for sequence in range(7):
        producer.send(sequence * 2, 2)
    for sequence in (6, 5, 4, 3, 2, 1, 0):
        producer.send(sequence * 2, 2)
    producer.send(14)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def similar_batches(client: DialogueClient) -> None:
    producer = Producer(client)
    producer.send(0, 3)
    producer.send(3, 3)
    for sequence, count in ((0, 2), (1, 2), (1, 1), (2, 1), (3, 4), (0, 6), (5, 1)):
        producer.send(sequence, count)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def gaps(client: DialogueClient) -> None:
    producer = Producer(client)
    producer.send(0)
    producer.send(2)
    producer.send(1)
    producer.send(1_000_000)
    producer.send(2)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_first_sequence_above_zero(client: DialogueClient) -> None:
    producer = Producer(client)
    producer.send(5)
    producer.send(6)
    producer.send(0)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def epochs(client: DialogueClient) -> None:
    producer = Producer(client)
    producer.send(0, epoch=1)
    producer.send(0, epoch=0)
    producer.send(1, epoch=0)
    producer.send(1, epoch=2)
    producer.send(0, epoch=2)
    producer.send(1, epoch=1)
    producer.send(0, epoch=2)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def negative_producer_epochs(client: DialogueClient) -> None:
    """No epoch is below -1, the epoch of a producer that the log does not know."""
    for epoch in (-2, -(2**15), -1):
        producer = Producer(client, f"a{epoch}")
        producer.send(0, epoch=epoch)
        producer.send(0, epoch=epoch, is_transactional=True)
        producer.send(0)
        producer.send(1, epoch=epoch)
        producer.send(1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def sequences_wrap_around(client: DialogueClient) -> None:
    producer = Producer(client)
    producer.send(LAST_SEQUENCE - 1, 2)
    producer.send(0)
    producer.send(LAST_SEQUENCE - 1, 2)
    other = Producer(client, "b")
    other.send(LAST_SEQUENCE, 3)
    other.send(2)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def two_producers(client: DialogueClient) -> None:
    producer = Producer(client)
    other = producer.new_id()
    producer.send(0)
    producer.send(0, producer_id=other)
    producer.send(1)
    producer.send(0, producer_id=other)
    producer.send(1, producer_id=other)
    note_end(client, producer.name)


def note_end(client: DialogueClient, name: str) -> None:
    """Notes the log end offset of the first partition."""
    from tests.conformance.dialogues.words import list_offsets

    client.request(list_offsets(name, 0), 7)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def incomplete_producer_fields(client: DialogueClient) -> None:
    """Id, epoch and sequence are set together or not at all."""
    producer = Producer(client)
    producer.send(-1)
    producer.send(0, epoch=-1)
    producer.send(0, producer_id=-1)
    producer.send(-1, producer_id=-1, epoch=0)
    producer.send(-5)
    producer.send(0, producer_id=-7)
    producer.send(0, producer_id=2**40)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def duplicates_with_log_append_time(client: DialogueClient) -> None:
    producer = Producer(client, message_timestamp_type="LogAppendTime")
    producer.send(0, 2)
    producer.send(0, 2)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_transactional_batch_without_a_transaction(client: DialogueClient) -> None:
    producer = Producer(client)
    producer.send(0, is_transactional=True)
    note_log(client, producer.name)
