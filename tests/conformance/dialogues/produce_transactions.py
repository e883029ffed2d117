"""Produce in transactions: what the coordinator has to know first (KIP-890), and what is refused."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.messages.transactions import WriteTxnMarkersRequest
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
from tests.conformance.speaker import Speaker, batch

FIRST, LAST = 3, 13


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def transactions_that_commit_and_abort(client: Speaker) -> None:
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
def a_partition_that_was_not_added(client: Speaker) -> None:
    producer = Transactor(client)
    producer.send(sequence=0)
    producer.begin(1)
    payloads = (producer.batch(b"0", sequence=0), producer.batch(b"1", sequence=0))
    client.ask(producer.request(*payloads), noting=outcomes)
    note_log(client, producer.name, 0)
    note_log(client, producer.name, 1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def after_the_end(client: Speaker) -> None:
    """Late batches of a transaction that has ended do not open it again."""
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=0)
    before = producer.epoch
    producer.end(commit=True)
    producer.send(sequence=1, epoch=before)
    producer.send(sequence=0, epoch=before)
    note_log(client, producer.name)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def ids_that_do_not_belong_together(client: Speaker) -> None:
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=0, producer_id=producer.id + 1_000_000)
    producer.send(sequence=0, transactional_id=client.topic("unknown"))
    producer.send(sequence=0, transactional_id="")
    producer.send(sequence=0)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def epochs_that_are_not_the_producers(client: Speaker) -> None:
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=0, epoch=producer.epoch + 1)
    producer.send(sequence=0)
    producer.send(sequence=1, epoch=producer.epoch + 1)
    producer.send(sequence=0, epoch=producer.epoch + 1)
    producer.send(sequence=1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def sequences_in_a_transaction(client: Speaker) -> None:
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=3)
    producer.send(sequence=0)
    producer.send(sequence=0)
    producer.send(sequence=2)
    producer.send(sequence=1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def two_producers_in_one_request(client: Speaker) -> None:
    producer = Transactor(client)
    producer.begin(0, 1)
    mine = producer.batch(b"a", sequence=0)
    for other in (
        producer.batch(b"b", sequence=0, producer_id=producer.id + 1),
        producer.batch(b"b", sequence=0, epoch=producer.epoch + 1),
    ):
        client.ask(producer.request(mine, other), noting=outcomes)
    client.ask(producer.request(mine, batch(b"b")), noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def what_is_no_part_of_the_transaction(client: Speaker) -> None:
    """A producer with a transaction open writes nothing outside of it, in that partition."""
    producer = Transactor(client)
    producer.send(sequence=0, is_transactional=False)
    producer.begin(0)
    producer.send(sequence=1 if not producer.bumps else 0, epoch=producer.epoch)
    producer.send(sequence=2, is_transactional=False)
    payloads = (producer.batch(b"a", sequence=2), producer.batch(b"b", sequence=0, is_transactional=False))
    client.ask(producer.request(*payloads), noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def something_wrong_beside_it(client: Speaker) -> None:
    producer = Transactor(client)
    producer.begin(0)
    good = producer.batch(b"a", sequence=0)
    client.ask(producer.request(good, b"nonsense" * 20, good), noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def transactional_without_a_producer(client: Speaker) -> None:
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=-1, producer_id=-1, epoch=-1)
    producer.send(sequence=-1)
    producer.send(sequence=0, epoch=-1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def acknowledgements_in_a_transaction(client: Speaker) -> None:
    producer = Transactor(client)
    producer.begin(0)
    client.ask(producer.request(producer.batch(b"a", sequence=0), acks=1), noting=outcomes)
    client.peer.say(producer.request(producer.batch(b"b", sequence=1), acks=0), client.version)
    client.ask(producer.request(producer.batch(b"c", sequence=2)), noting=outcomes)
    client.ask(producer.request(producer.batch(b"d", sequence=3), acks=7), noting=outcomes)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def an_id_that_was_never_initialised(client: Speaker) -> None:
    coordinator_of(client, client.topic("nobody"), TRANSACTION)
    producer = Transactor(client)
    producer.send(sequence=0, transactional_id=client.topic("nobody"))


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def a_marker_out_of_turn(client: Speaker) -> None:
    """Somebody ends the transaction in this partition: it has to be verified anew."""
    producer = Transactor(client)
    producer.begin(0)
    producer.send(sequence=0)
    ended = marker(producer.id, producer.epoch, {producer.name: [0]}, commit=False)
    client.ask(WriteTxnMarkersRequest(markers=[ended]), 1)
    producer.send(sequence=1)
    note_log(client, producer.name)
    note_log(client, producer.name, isolation_level=1)


@dialogue(ApiKey.PRODUCE, FIRST, LAST)
def markers_by_clients(client: Speaker) -> None:
    """Control batches are for brokers."""
    producer = Transactor(client)
    producer.begin(0)
    producer.send(b"a", sequence=0, is_control=True)
    producer.send(b"a", sequence=-1, is_control=True)


assert ADDS_IMPLICITLY <= LAST
