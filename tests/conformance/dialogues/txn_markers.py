"""WriteTxnMarkers: ended transactions of partitions, and rejected markers."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.in_transactions import (
    GROUP,
    Transactor,
    coordinator_of,
    marker,
    note_log,
    note_producers,
)
from tests.conformance.dialogues.words import fetch, fetch_topic, partition

FIRST, LAST = 1, 2
WITH_TRANSACTION_VERSION = 2
STRANGER = 2**40
NOT_LEADER = 6
"""The error code while the coordinator loads its partition."""


def write(client: DialogueClient, *markers: WriteTxnMarkersRequest.WritableTxnMarker) -> None:
    client.request(WriteTxnMarkersRequest(markers=list(markers)), noting=results)


def results(answer: Any) -> object:
    """The results, sorted: brokers return them in hash order."""
    return sorted(
        (marker.producer_id % 1000, topic.name, partition.partition_index, partition.error_code)
        if marker.producer_id >= STRANGER
        else (-1, topic.name, partition.partition_index, partition.error_code)
        for marker in answer.markers
        for topic in marker.topics
        for partition in topic.partitions
    )


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def nothing_to_write(client: DialogueClient) -> None:
    client.request(WriteTxnMarkersRequest())
    client.request(
        WriteTxnMarkersRequest(markers=[marker(STRANGER, 0, {})]), noting=lambda it: len(it.markers)
    )


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def an_open_transaction(client: DialogueClient) -> None:
    for word, commit in (("committed", True), ("aborted", False)):
        producer = Transactor(client, word, bumps=False)
        producer.add(0, 1)
        producer.write(b"a")
        producer.write(b"b", partition=1)
        write(client, marker(producer.id, producer.epoch, {producer.name: [0]}, commit=commit))
        for index in (0, 1):
            note_log(client, producer.name, index)
            note_log(client, producer.name, index, isolation_level=1)
        note_producers(client, producer.name, 0, 1)


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def unknown_producers(client: DialogueClient) -> None:
    name = client.create("a", 2)
    write(client, marker(STRANGER, 3, {name: [0]}), marker(STRANGER + 1, 0, {name: [0, 1]}, commit=False))
    write(client, marker(STRANGER, 3, {name: [0]}))
    for index in (0, 1):
        note_log(client, name, index)
    note_producers(client, name, 0)


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def negative_epochs(client: DialogueClient) -> None:
    """Epochs of producers and of coordinators that the log does not know."""
    name = client.create("a", 9)
    cases = [(epoch, of_coordinator) for epoch in (0, -1, -2) for of_coordinator in (0, -1, -2)]
    versions = (0, 2) if client.version >= WITH_TRANSACTION_VERSION else (0,)
    for version in versions:
        for index, (epoch, of_coordinator) in enumerate(cases):
            producer_id = STRANGER + version * 10 + index
            write(
                client,
                marker(
                    producer_id,
                    epoch,
                    {name: [index]},
                    coordinator_epoch=of_coordinator,
                    transaction_version=version,
                ),
            )
    for index in range(len(cases)):
        note_log(client, name, index)


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def markers_without_a_producer_id(client: DialogueClient) -> None:
    """One such marker fails the whole request."""
    coordinator_of(client, client.topic("group"), GROUP)
    name = client.create("a", 3)
    good = marker(STRANGER, 0, {name: [0]})
    loaded = WriteTxnMarkersRequest(markers=[marker(STRANGER, 0, {"__consumer_offsets": [3]})])
    client.request_until(loaded, lambda it: it.markers[0].topics[0].partitions[0].error_code != NOT_LEADER)
    for producer_id, epoch in ((-1, 0), (-1, -1), (STRANGER + 1, -1), (-2, 0)):
        for partitions in ({name: [1]}, {name: [99]}, {"__consumer_offsets": [3]}, {name: [2], "b": [0]}):
            write(client, good, marker(producer_id, epoch, partitions), marker(STRANGER + 2, 0, {name: [2]}))
    for index in range(3):
        note_log(client, name, index)


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def unknown_partitions(client: DialogueClient) -> None:
    name = client.create("a")
    write(client, marker(STRANGER, 0, {client.topic("b"): [0], name: [0, 1, -1]}))
    write(client, marker(STRANGER, 0, {client.topic("b"): [0]}))
    write(client, marker(STRANGER, 0, {client.topic("b"): [0]}), marker(STRANGER + 1, 0, {name: [0]}))
    write(client, marker(STRANGER, 0, {"": [0], "a b": [0], "__transaction_state": [500]}))


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def a_partition_in_two_markers(client: DialogueClient) -> None:
    """Not twice in one marker: Kafka would wait for ever."""
    name = client.create("a")
    write(client, marker(STRANGER, 0, {name: [0]}), marker(STRANGER, 1, {name: [0]}, commit=False))
    write(client, marker(STRANGER, 5, {name: [0]}), marker(STRANGER, 4, {name: [0]}))
    client.note("the log")
    note_log(client, name)


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def epochs_of_producers(client: DialogueClient) -> None:
    name = client.create("a")
    for epoch in (2, 2, 1, 0, 3, 2, 3):
        write(client, marker(STRANGER, epoch, {name: [0]}))
    note_log(client, name)


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def epochs_of_coordinators(client: DialogueClient) -> None:
    name = client.create("a")
    for epoch in (5, 5, 4, -1, 6, 5):
        write(client, marker(STRANGER, 0, {name: [0]}, coordinator_epoch=epoch))
    note_log(client, name)


@dialogue(ApiKey.WRITE_TXN_MARKERS, WITH_TRANSACTION_VERSION, LAST)
def an_epoch_for_each_transaction(client: DialogueClient) -> None:
    """From transaction version 2 on a marker has a higher epoch than the records of its transaction."""
    producer = Transactor(client, bumps=True)
    for _ in range(2):
        producer.write(b"a")
        producer.end(commit=True)
    producer.write(b"a")
    partitions = {producer.name: [0]}
    for epoch in (producer.epoch, producer.epoch - 1, producer.epoch + 1, producer.epoch + 1, producer.epoch):
        write(client, marker(producer.id, epoch, partitions, commit=False, transaction_version=2))
    note_log(client, producer.name)
    note_producers(client, producer.name)


@dialogue(ApiKey.WRITE_TXN_MARKERS, WITH_TRANSACTION_VERSION, LAST)
def transaction_versions(client: DialogueClient) -> None:
    name = client.create("a")
    for version in (0, 1, 2, 3, 127):
        write(client, marker(STRANGER, 1, {name: [0]}, transaction_version=version))
    note_log(client, name)


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def offsets_of_groups(client: DialogueClient) -> None:
    coordinator_of(client, client.topic("group"), GROUP)
    name = client.create("a")
    loaded = WriteTxnMarkersRequest(markers=[marker(STRANGER, 0, {"__consumer_offsets": [3]})])
    client.request_until(loaded, lambda it: it.markers[0].topics[0].partitions[0].error_code != NOT_LEADER)
    for commit in (True, False):
        write(client, marker(STRANGER, 0, {"__consumer_offsets": [3], name: [0]}, commit=commit))
    write(client, marker(STRANGER, 0, {"__consumer_offsets": [999, -1]}))


@dialogue(ApiKey.WRITE_TXN_MARKERS, FIRST, LAST)
def the_coordinator_ends_the_transaction_later(client: DialogueClient) -> None:
    """The coordinator writes its markers although others exist."""
    producer = Transactor(client, bumps=False)
    producer.add(0)
    producer.write(b"a")
    write(client, marker(producer.id, producer.epoch, {producer.name: [0]}, commit=False))
    producer.end(commit=True)
    note_log(client, producer.name)
    note_log(client, producer.name, isolation_level=1)


@dialogue(
    ApiKey.WRITE_TXN_MARKERS,
    FIRST,
    LAST,
    differs="Kafka rolls a segment for a marker that it then rejects, and a fetch ends with a segment",
)
def a_rejected_marker_between_two_batches(client: DialogueClient) -> None:
    """The marker is so much younger than the records that a segment is due."""
    name = client.create("a")
    client.write(name, batch(b"before"))
    write(client, marker(STRANGER, -2, {name: [0]}))
    client.write(name, batch(b"after"))
    client.request(
        fetch(fetch_topic(name, [partition()])),
        12,
        noting=lambda answer: len(answer.responses[0].partitions[0].records),
    )
