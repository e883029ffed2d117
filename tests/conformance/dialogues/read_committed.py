"""Reads of transactional records: Fetch and ListOffsets by isolation level, and DescribeProducers."""

from __future__ import annotations

import time
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.offsets import DeleteRecordsRequest
from barnabas.protocol.messages.producers import DescribeProducersRequest
from tests.conformance.dialogue_client import START_MS, DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.fetch import name_or_id
from tests.conformance.dialogues.in_transactions import Transactor, note_batches, note_producers
from tests.conformance.dialogues.words import IDS_IN_FETCH, fetch, fetch_topic, list_offsets, partition

UNCOMMITTED, COMMITTED = 0, 1
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
MAX_TIMESTAMP_SINCE = 7
NEXT_MS_S = 0.005
"""A pause after which the clock shows another millisecond: otherwise two markers may have equal timestamps."""


def read(
    client: DialogueClient, name: str, offset: int = 0, *, isolation: int = COMMITTED, **fields: Any
) -> None:
    """Fetches from `offset` on and notes the response without producer ids."""
    topics = fetch_topic(name_or_id(client, name), [partition(0, offset, **fields)])

    def plain(answer: FetchResponse) -> object:
        data = answer.responses[0].partitions[0]
        aborted = data.aborted_transactions
        return (
            data.error_code,
            data.high_watermark,
            data.last_stable_offset,
            data.log_start_offset,
            len(data.records or b""),  # type: ignore[arg-type]
            None if aborted is None else sorted(it.first_offset for it in aborted),
        )

    answer = client.request(fetch(topics, isolation_level=isolation), noting=plain)
    note_batches(client, bytes(answer.responses[0].partitions[0].records or b""))


def delete_of(name: str, offset: int) -> DeleteRecordsRequest:
    """Deletes records of the first partition up to `offset` (exclusive)."""
    first = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[first])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)


def history(client: DialogueClient, *, bumps: bool) -> tuple[str, Transactor]:
    """Writes committed, aborted and plain records in turn, and then a transaction that stays open."""
    producer = Transactor(client, bumps=bumps)
    other = Transactor(client, "other", topic=producer.name, bumps=bumps)
    for commit in (True, False):
        for each in (producer, other):
            each.begin(0)
        producer.write(b"a%d" % commit)
        other.write(b"b%d" % commit)
        client.write(producer.name, batch(b"plain"))
        other.write(b"c%d" % commit)
        producer.end(commit=commit)
        time.sleep(NEXT_MS_S)
        other.end(commit=not commit)
    client.write(producer.name, batch(b"plain"))
    producer.begin(0)
    producer.write(b"open")
    client.write(producer.name, batch(b"behind it"))
    return producer.name, producer


@dialogue(ApiKey.FETCH, 4, 18)
def by_isolation_level(client: DialogueClient) -> None:
    for bumps in (False, True):
        if not bumps or client.version >= IDS_IN_FETCH:
            name, producer = history(client, bumps=bumps)
            for isolation in (UNCOMMITTED, COMMITTED):
                read(client, name, isolation=isolation)
            producer.end(commit=False)
            read(client, name)
            return


@dialogue(ApiKey.FETCH, 4, 18)
def aborted_transactions_without_records(client: DialogueClient) -> None:
    """A partition without records lists aborted transactions or not, depending on the limit that withholds records."""
    producer = Transactor(client, bumps=False)
    for index in (0, 1):
        producer.add(index)
        producer.write(b"a" * 200, partition=index)
        producer.write(b"b" * 200, partition=index)
        producer.end(commit=False)
        client.write(producer.name, batch(b"c" * 200), partition=index)
    for isolation in (UNCOMMITTED, COMMITTED):
        for offsets in ((0, 0), (1, 1), (2, 2), (3, 3), (4, 0), (4, 3), (4, 4)):
            for max_bytes, of_each in ((1, 100), (300, 100), (300, 10_000), (600, 300), (600, 0), (0, 300)):
                parts = [partition(index, offset, max_bytes=of_each) for index, offset in enumerate(offsets)]
                topic = fetch_topic(name_or_id(client, producer.name), parts)
                client.request(
                    fetch(topic, isolation_level=isolation, max_bytes=max_bytes), noting=sizes_and_aborted
                )


def starts_of(data: FetchResponse.PartitionData) -> list[int] | None:
    """The first offsets of the aborted transactions of a partition."""
    aborted = data.aborted_transactions
    return None if aborted is None else [it.first_offset for it in aborted]


def sizes_and_aborted(answer: FetchResponse) -> object:
    """The size of the records and the first offsets of aborted transactions of each partition."""
    return [
        (
            data.partition_index,
            data.error_code,
            len(data.records or b""),  # type: ignore[arg-type]
            starts_of(data),
        )
        for data in answer.responses[0].partitions
    ]


@dialogue(ApiKey.FETCH, 11, 13)
def committed_from_every_offset(client: DialogueClient) -> None:
    name, producer = history(client, bumps=True)
    for offset in range(18):
        read(client, name, offset)
        read(client, name, offset, max_bytes=1)
    producer.end(commit=True)
    for offset in range(12, 19):
        read(client, name, offset)


@dialogue(ApiKey.FETCH, 12, 12)
def a_transaction_in_deleted_records(client: DialogueClient) -> None:
    """Records that DeleteRecords removed do not hold back the last stable offset."""
    name, producer = history(client, bumps=True)
    client.request(delete_of(name, -1), 2)
    client.write(name, batch(b"later"))
    note_producers(client, name)
    for isolation in (UNCOMMITTED, COMMITTED):
        client.request(list_offsets(name, 0, isolation_level=isolation), 7)
    producer.end(commit=True)
    client.request(list_offsets(name, 0, isolation_level=COMMITTED), 7)


@dialogue(ApiKey.FETCH, 4, 18)
def waiting_for_the_end_of_a_transaction(client: DialogueClient) -> None:
    """Records beyond the last stable offset do not complete a fetch."""
    producer = Transactor(client, bumps=False)
    client.write(producer.name, batch(b"a"))
    producer.begin(0)
    producer.write(b"b")
    for offset in (0, 1):
        topics = fetch_topic(name_or_id(client, producer.name), [partition(0, offset)])
        request = fetch(topics, isolation_level=COMMITTED, max_wait_ms=300, min_bytes=100)
        began = time.monotonic()
        client.request(request, noting=lambda it: len(it.responses[0].partitions[0].records or b""))
        client.note(time.monotonic() - began > 0.25)


@dialogue(
    ApiKey.FETCH,
    4,
    18,
    differs="Kafka answers a read_committed fetch past the last stable offset at once, without records",
)
def waiting_past_the_last_stable_offset(client: DialogueClient) -> None:
    producer = Transactor(client, bumps=False)
    client.write(producer.name, batch(b"a"))
    producer.begin(0)
    producer.write(b"b", b"c")
    topics = fetch_topic(name_or_id(client, producer.name), [partition(0, 3)])
    # Long, so that an answer at once from a busy machine comes well before the end of the wait.
    began = time.monotonic()
    client.request(fetch(topics, isolation_level=COMMITTED, max_wait_ms=2000, min_bytes=1))
    client.note(time.monotonic() - began > 1.9)


@dialogue(ApiKey.LIST_OFFSETS, 2, 11)
def offsets_by_isolation_level(client: DialogueClient) -> None:
    name, producer = history(client, bumps=False)
    stamps = [LATEST, EARLIEST, START_MS, START_MS + 1, START_MS + 10**9]
    if client.version >= MAX_TIMESTAMP_SINCE:
        stamps.append(MAX_TIMESTAMP)
    for ended in (False, True):
        for isolation in (UNCOMMITTED, COMMITTED):
            for timestamp in stamps:
                client.request(list_offsets(name, 0, timestamp=timestamp, isolation_level=isolation))
        if not ended:
            producer.end(commit=True)


@dialogue(ApiKey.LIST_OFFSETS, 2, 11)
def nothing_but_an_open_transaction(client: DialogueClient) -> None:
    producer = Transactor(client, bumps=False)
    producer.begin(0)
    producer.write(b"a")
    for isolation in (UNCOMMITTED, COMMITTED):
        for timestamp in (LATEST, EARLIEST, START_MS):
            client.request(list_offsets(producer.name, 0, timestamp=timestamp, isolation_level=isolation))


@dialogue(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
def producers_in_transactions(client: DialogueClient) -> None:
    for bumps in (False, True):
        producer = Transactor(client, f"bumps-{bumps}", bumps=bumps)
        for commit in (True, False):
            producer.begin(0, 1)
            producer.write(b"a")
            producer.write(b"b", b"c", partition=1)
            producer.write(b"d")
            note_producers(client, producer.name, 0, 1)
            producer.end(commit=commit)
            note_producers(client, producer.name, 0, 1)


@dialogue(ApiKey.DESCRIBE_PRODUCERS, 0, 0)
def producers_of_unknown_topics(client: DialogueClient) -> None:
    producer = Transactor(client)
    wanted = [
        DescribeProducersRequest.TopicRequest(name=name, partition_indexes=indexes)
        for name, indexes in (
            (producer.name, [0, 2, -1, 0]),
            (client.topic("unknown"), [0]),
            ("", [0]),
            ("no name", [0]),
            (producer.name, []),
        )
    ]
    client.request(DescribeProducersRequest(topics=wanted))
    client.request(DescribeProducersRequest())


@dialogue(
    ApiKey.LIST_OFFSETS,
    7,
    8,
    differs="Kafka searches only the first segment with a timestamp in range, even if its records are deleted",
)
def timestamps_below_the_log_start(client: DialogueClient) -> None:
    """The marker is so much younger than the records that the log rolls a segment for it."""
    producer = Transactor(client, bumps=False)
    client.write(producer.name, batch(b"plain"))
    producer.begin(0)
    producer.write(b"a", b"b")
    producer.end(commit=True)
    for start in (1, 2, 3):
        client.request(delete_of(producer.name, start), 2)
        for timestamp in (0, 1, START_MS):
            client.request(list_offsets(producer.name, 0, timestamp=timestamp))


@dialogue(
    ApiKey.FETCH,
    12,
    13,
    differs="Kafka's last stable offset is the base offset of the batch that holds the log start offset",
)
def the_log_starts_within_a_batch_of_an_open_transaction(client: DialogueClient) -> None:
    producer = Transactor(client, bumps=client.version >= IDS_IN_FETCH)
    client.write(producer.name, batch(b"plain"))
    producer.begin(0)
    producer.write(b"a", b"b", b"c")
    client.write(producer.name, batch(b"plain"))
    for offset in (1, 2, 3):
        client.request(delete_of(producer.name, offset), 2)
        for isolation in (UNCOMMITTED, COMMITTED):
            read(client, producer.name, offset, isolation=isolation)
            client.request(list_offsets(producer.name, 0, isolation_level=isolation), 7)
    producer.end(commit=True)
    read(client, producer.name, 3)
