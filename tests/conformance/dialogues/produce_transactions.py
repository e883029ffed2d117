"""Produce in transactions: verification by the coordinator (KIP-890), and rejected requests."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest
from barnabas.protocol.wire import Uuid
from tests.conformance.dialogue_client import NO_ID, DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.in_transactions import (
    ADDS_IMPLICITLY,
    TRANSACTION,
    Transactor,
    coordinator_of,
    marker,
    note_log,
    note_producers,
    outcomes,
)
from tests.conformance.dialogues.words import IDS_IN_PRODUCE, produce

FIRST, LAST = 3, 13


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def transactions_that_commit_and_abort(client: DialogueClient) -> None:
    producer = Transactor(client)
    for commit in (True, False, True):
        producer.begin(0)
        start = 0 if producer.bumps else producer.sequences[0]
        producer.send(b"a", b"b", sequence=start)
        producer.send(b"c", sequence=start + 2)
        producer.sequences[0] += 3
        producer.end(commit=commit)
    note_log(client, producer.name)
    note_log(client, producer.name, isolation_level=1)
    note_producers(client, producer.name, 0, 1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_partition_that_was_not_added(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.send(sequence=0)
    producer.begin(1)
    payloads = (producer.batch(b"0", sequence=0), producer.batch(b"1", sequence=0))
    client.request(producer.produce_request(*payloads), noting=outcomes)
    note_log(client, producer.name, 0)
    note_log(client, producer.name, 1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def batches_after_the_end_of_a_transaction(client: DialogueClient) -> None:
    """Late batches of an ended transaction do not open it again."""
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=0)
    before = producer.epoch
    producer.end(commit=True)
    producer.send(sequence=1, epoch=before)
    producer.send(sequence=0, epoch=before)
    note_log(client, producer.name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def ids_that_do_not_match(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=0, producer_id=producer.id + 1_000_000)
    producer.send(sequence=0, transactional_id=client.topic("unknown"))
    producer.send(sequence=0, transactional_id="")
    producer.send(sequence=0)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def wrong_producer_epochs(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=0, epoch=producer.epoch + 1)
    producer.send(sequence=0)
    producer.send(sequence=1, epoch=producer.epoch + 1)
    producer.send(sequence=0, epoch=producer.epoch + 1)
    producer.send(sequence=1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def sequences_in_a_transaction(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=3)
    producer.send(sequence=0)
    producer.send(sequence=0)
    producer.send(sequence=2)
    producer.send(sequence=1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def two_producers_in_one_request(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.begin(0, 1)
    mine = producer.batch(b"a", sequence=0)
    for other in (
        producer.batch(b"b", sequence=0, producer_id=producer.id + 1),
        producer.batch(b"b", sequence=0, epoch=producer.epoch + 1),
    ):
        client.request(producer.produce_request(mine, other), noting=outcomes)
    client.request(producer.produce_request(mine, batch(b"b")), noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def non_transactional_batches(client: DialogueClient) -> None:
    """A producer with an open transaction in a partition writes nothing there outside of it."""
    producer = Transactor(client)
    producer.send(sequence=0, is_transactional=False)
    producer.begin(0)
    producer.send(sequence=1 if not producer.bumps else 0, epoch=producer.epoch)
    producer.send(sequence=2, is_transactional=False)
    payloads = (producer.batch(b"a", sequence=2), producer.batch(b"b", sequence=0, is_transactional=False))
    client.request(producer.produce_request(*payloads), noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def an_error_in_another_partition(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.begin(0)
    good = producer.batch(b"a", sequence=0)
    client.request(producer.produce_request(good, b"nonsense" * 20, good), noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_truncated_batch(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.begin(0)
    whole = producer.batch(b"a", sequence=0)
    for transactional_id in (producer.transactional_id, None):
        for size in (11, 16, 22, len(whole) - 1):
            request = producer.produce_request(whole[:size])
            request.transactional_id = transactional_id
            client.request(request, noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_batch_of_an_unknown_format_beside_others(client: DialogueClient) -> None:
    """It fails the whole request, unless a transactional batch precedes it."""
    name = client.create("a", 3)
    topic: str | Uuid = client.id_of(name) if client.version >= IDS_IN_PRODUCE else name
    nowhere: str | Uuid = NO_ID if client.version >= IDS_IN_PRODUCE else client.topic("nowhere")
    good, no_format, too_small = batch(b"x"), bytearray(batch(b"x")), bytearray(batch(b"x"))
    no_format[16] = 3
    too_small[8:12] = (13).to_bytes(4, "big")
    for bad in (bytes(no_format), bytes(too_small)):
        client.request(produce(topic, good, bad), noting=outcomes)
        client.request(produce(nowhere, bad), noting=outcomes)
        client.request(produce(topic, bad, acks=1), noting=outcomes)
        client.request(produce(topic, good[:40], bad, acks=7), noting=outcomes)
    producer = Transactor(client)
    producer.begin(0)
    transactional = producer.batch(b"a", sequence=0)
    client.request(producer.produce_request(transactional, bytes(no_format)), noting=outcomes)
    client.request(producer.produce_request(bytes(no_format), transactional), noting=outcomes)
    note_log(client, name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def transactional_batches_without_a_producer_id(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=-1, producer_id=-1, epoch=-1)
    producer.send(sequence=-1)
    producer.send(sequence=0, epoch=-1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def acknowledgements_in_a_transaction(client: DialogueClient) -> None:
    producer = Transactor(client)
    producer.begin(0)
    client.request(producer.produce_request(producer.batch(b"a", sequence=0), acks=1), noting=outcomes)
    client.connection.send(producer.produce_request(producer.batch(b"b", sequence=1), acks=0), client.version)
    client.request(producer.produce_request(producer.batch(b"c", sequence=2)), noting=outcomes)
    client.request(producer.produce_request(producer.batch(b"d", sequence=3), acks=7), noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def an_uninitialized_transactional_id(client: DialogueClient) -> None:
    coordinator_of(client, client.topic("nobody"), TRANSACTION)
    producer = Transactor(client)
    producer.send(sequence=0, transactional_id=client.topic("nobody"))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_marker_during_a_transaction(client: DialogueClient) -> None:
    """A marker ends the transaction in this partition: the next batch has to be verified again."""
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=0)
    ended = marker(producer.id, producer.epoch, {producer.name: [0]}, commit=False)
    client.request(WriteTxnMarkersRequest(markers=[ended]), 1)
    producer.send(sequence=1)
    note_log(client, producer.name)
    note_log(client, producer.name, isolation_level=1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def control_batches_of_clients(client: DialogueClient) -> None:
    """Only brokers may write control batches."""
    producer = Transactor(client)
    producer.begin(0)
    producer.send(b"a", sequence=0, is_control=True)
    producer.send(b"a", sequence=-1, is_control=True)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_zombie_between_two_batches(client: DialogueClient) -> None:
    """A fenced producer does not affect its successor."""
    producer = Transactor(client)
    zombie = producer.epoch
    producer.initialize()
    producer.begin(0, 1)
    producer.send(sequence=0)
    for sequence, then in ((0, 1), (7, 2), (1, 3)):
        producer.send(sequence=sequence, epoch=zombie)
        producer.send(sequence=then)
    payloads = (
        producer.batch(b"a", sequence=0, epoch=zombie),
        producer.batch(b"b", sequence=0, epoch=zombie),
    )
    client.request(producer.produce_request(*payloads), noting=outcomes)
    payloads = (producer.batch(b"c", sequence=4), producer.batch(b"d", sequence=0))
    client.request(producer.produce_request(*payloads), noting=outcomes)
    producer.end(commit=True)
    note_log(client, producer.name, 0)
    note_log(client, producer.name, 1)
    note_producers(client, producer.name, 0, 1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_zombie_before_the_first_batch(client: DialogueClient) -> None:
    """The log does not know either epoch yet; the coordinator does."""
    producer = Transactor(client)
    zombie = producer.epoch
    producer.initialize()
    producer.send(sequence=3, epoch=zombie)
    producer.begin(0)
    producer.send(sequence=2, epoch=zombie)
    producer.send(sequence=0)
    producer.send(sequence=0, epoch=zombie)
    producer.send(sequence=1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_zombie_with_an_open_transaction(client: DialogueClient) -> None:
    """The ABORT marker brings the new epoch to the log."""
    producer = Transactor(client)
    zombie = producer.epoch
    producer.begin(0)
    producer.send(b"a", b"b", sequence=0)
    producer.initialize()
    producer.send(sequence=2, epoch=zombie)
    producer.send(b"a", b"b", sequence=0, epoch=zombie)
    producer.begin(0)
    producer.send(sequence=2, epoch=zombie)
    producer.send(sequence=0)
    producer.send(sequence=2, epoch=zombie)
    producer.send(sequence=1)
    note_log(client, producer.name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_zombie_between_two_transactions(client: DialogueClient) -> None:
    producer = Transactor(client)
    zombie = producer.epoch
    producer.initialize()
    for commit in (True, False):
        before = producer.epoch
        producer.begin(0)
        start = producer.sequences[0]
        producer.send(sequence=start)
        producer.send(sequence=0, epoch=zombie)
        producer.send(sequence=start + 1)
        producer.sequences[0] += 2
        producer.end(commit=commit)
        producer.send(sequence=0, epoch=zombie)
        producer.send(sequence=start + 2, epoch=before)
    producer.begin(0)
    producer.send(sequence=producer.sequences[0])
    note_log(client, producer.name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_zombie_outside_of_transactions(client: DialogueClient) -> None:
    producer = Transactor(client)
    zombie = producer.epoch
    producer.initialize()
    producer.begin(0)
    producer.send(sequence=0)
    producer.send(sequence=0, epoch=zombie, is_transactional=False)
    producer.send(sequence=1, epoch=zombie, is_transactional=False)
    producer.send(sequence=1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_failed_batch_keeps_its_verification(client: DialogueClient) -> None:
    """Its verification state stays, with the lowest sequence number."""
    for sequence in (-1, 5, 2):
        producer = Transactor(client, f"tx{sequence}")
        producer.begin(0)
        producer.send(sequence=sequence)
        for following in (0, 1, 3):
            producer.send(sequence=following)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_marker_during_verification(client: DialogueClient) -> None:
    """A marker ends verification, unless each transaction has its own epoch and the marker has this one."""
    for version, ahead in ((0, 0), (2, 0), (2, 1), (0, -1)):
        producer = Transactor(client, f"tx{version}-{ahead}")
        producer.initialize()
        producer.begin(0)
        producer.send(sequence=-1)
        epoch = producer.epoch + ahead
        ended = marker(producer.id, epoch, {producer.name: [0]}, commit=False, transaction_version=version)
        client.request(WriteTxnMarkersRequest(markers=[ended]), 2, noting=lambda it: it.markers[0].topics)
        producer.send(sequence=0)
        producer.send(sequence=1)


assert ADDS_IMPLICITLY <= LAST
