"""Fetch without sessions: the records returned, the limits of bytes, and rejected requests."""

from __future__ import annotations

import time

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.wire import Uuid
from tests.conformance.dialogue_client import NO_ID, DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.words import IDS_IN_FETCH, fetch, fetch_topic, partition

FIRST, LAST = 4, 18
EPOCHS = 9
LAST_FETCHED_EPOCHS = 12


def name_or_id(client: DialogueClient, name: str) -> str | Uuid:
    """The name or id that identifies the topic in a request of this version."""
    return client.id_of(name) if client.version >= IDS_IN_FETCH else name


def filled(client: DialogueClient, word: str = "a", count: int = 5) -> str:
    """A topic with `count` batches of two records."""
    name = client.create(word)
    client.write(name, *(batch(b"%d" % at, b"%d" % at * 100) for at in range(count)))
    return name


@dialogue(ApiKey.FETCH, FIRST, LAST)
def from_every_offset(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    for offset in range(11):
        client.request(fetch(fetch_topic(topic, [partition(0, offset)])))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def every_codec(client: DialogueClient) -> None:
    for codec in CompressionType:
        name = client.create(codec.label)
        client.write(name, batch(b"a" * 200, compression=codec))
        client.request(fetch(fetch_topic(name_or_id(client, name), [partition()])))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def offsets_out_of_range(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    for offset in (11, 2**62, -1, -2):
        client.request(fetch(fetch_topic(topic, [partition(0, offset)])))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def an_empty_log(client: DialogueClient) -> None:
    topic = name_or_id(client, client.create("a"))
    client.request(fetch(fetch_topic(topic, [partition()])))
    client.request(fetch(fetch_topic(topic, [partition(0, 1)])))
    client.request(fetch())


@dialogue(ApiKey.FETCH, FIRST, LAST)
def limits_of_a_partition(client: DialogueClient) -> None:
    """The first batch is returned whole, a later one only if it fits."""
    topic = name_or_id(client, filled(client))
    size = len(batch(b"0", b"0" * 100))
    for limit in (0, 1, size - 1, size, size + 1, 2 * size, 3 * size - 1):
        client.request(fetch(fetch_topic(topic, [partition(0, 2, max_bytes=limit)])))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def limits_of_a_response(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    size = len(batch(b"0", b"0" * 100))
    for limit in (0, 1, size, 2 * size):
        client.request(fetch(fetch_topic(topic, [partition(0, 1)]), max_bytes=limit))


@dialogue(
    ApiKey.FETCH,
    FIRST,
    LAST,
    differs="Kafka fails with UNKNOWN_SERVER_ERROR; to Barnabas a negative limit is 0",
)
def negative_limits(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    client.request(fetch(fetch_topic(topic, [partition(0, 2, max_bytes=-1)])))
    client.request(fetch(fetch_topic(topic, [partition(0, 2)]), max_bytes=-1))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def limits_over_many_partitions(client: DialogueClient) -> None:
    """Only the first partition with records may exceed the limits."""
    name = client.create("a", 4)
    for index in (1, 2, 3):
        client.write(name, batch(b"x" * 100 * index), batch(b"y" * 100), partition=index)
    size = len(batch(b"x" * 100))
    for limit in (1, size, 2 * size, 3 * size, 100_000):
        wanted = [partition(index) for index in range(4)]
        client.request(fetch(fetch_topic(name_or_id(client, name), wanted), max_bytes=limit))
    wanted = [partition(index, max_bytes=size) for index in range(4)]
    client.request(fetch(fetch_topic(name_or_id(client, name), wanted)))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def unknown_topics_and_partitions(client: DialogueClient) -> None:
    name = filled(client)
    topic = name_or_id(client, name)
    unknown = NO_ID if client.version >= IDS_IN_FETCH else client.topic("b")
    client.request(fetch(fetch_topic(unknown, [partition(), partition(1)])))
    client.request(fetch(fetch_topic(topic, [partition(1), partition(-1)])))
    both = fetch_topic(unknown, [partition()]), fetch_topic(topic, [partition(), partition(7)])
    client.request(fetch(*both))
    client.request(fetch(fetch_topic(bytes(16) if client.version >= IDS_IN_FETCH else "", [partition()])))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def the_same_partition_twice(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    client.request(fetch(fetch_topic(topic, [partition(0, 0), partition(0, 8)])))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def read_committed(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    for level in (0, 1):
        client.request(fetch(fetch_topic(topic, [partition(0, 6)]), isolation_level=level))


@dialogue(ApiKey.FETCH, EPOCHS, LAST)
def leader_epochs(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    for epoch in (-1, 0, 1, 5, -2):
        client.request(fetch(fetch_topic(topic, [partition(0, 8, epoch=epoch)])))


@dialogue(ApiKey.FETCH, LAST_FETCHED_EPOCHS, LAST)
def last_fetched_epochs(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    for epoch, offset in ((0, 8), (0, 10), (0, 11), (1, 8), (-2, 8), (0, -1)):
        client.request(fetch(fetch_topic(topic, [partition(0, offset, last_fetched_epoch=epoch)])))


@dialogue(ApiKey.FETCH, FIRST, LAST)
def unknown_replica_ids(client: DialogueClient) -> None:
    topic = name_or_id(client, filled(client))
    for replica_id in (1, 2, -2, -3):
        request = fetch(fetch_topic(topic, [partition(0, 8)]))
        if client.version < 15:
            request.replica_id = replica_id
        else:
            request.replica_state = FetchRequest.ReplicaState(replica_id=replica_id)
        client.request(request)


def note_delay(client: DialogueClient, request: FetchRequest) -> None:
    """Notes the response, and whether the broker delayed it."""
    started = time.monotonic()
    client.request(request)
    client.note("waited" if time.monotonic() - started > request.max_wait_ms / 1100 else "at once")


@dialogue(ApiKey.FETCH, 11, 13)
def waiting_for_bytes(client: DialogueClient) -> None:
    name = filled(client, count=1)
    topic = name_or_id(client, name)
    size = len(batch(b"0", b"0" * 100))
    for offset, min_bytes in ((0, 0), (2, 0), (0, 1), (2, 1), (0, size), (0, size + 1), (3, 1)):
        note_delay(
            client, fetch(fetch_topic(topic, [partition(0, offset)]), max_wait_ms=500, min_bytes=min_bytes)
        )
    note_delay(client, fetch(max_wait_ms=500))


@dialogue(ApiKey.FETCH, 11, 13)
def errors_are_returned_at_once(client: DialogueClient) -> None:
    name = filled(client)
    topic = name_or_id(client, name)
    unknown = NO_ID if client.version >= IDS_IN_FETCH else client.topic("b")
    for request in (
        fetch(fetch_topic(topic, [partition(0, 99)]), max_wait_ms=500),
        fetch(fetch_topic(unknown, [partition()]), max_wait_ms=500),
        fetch(fetch_topic(unknown, [partition()]), fetch_topic(topic, [partition(0, 10)]), max_wait_ms=500),
        fetch(fetch_topic(topic, [partition(0, 10), partition(9)]), max_wait_ms=500),
        fetch(fetch_topic(topic, [partition(0, 10, epoch=7)]), max_wait_ms=500),
    ):
        note_delay(client, request)
