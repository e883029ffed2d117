"""Fetch requests and sessions: an incremental reader accumulates what a full fetch would have returned."""

from __future__ import annotations

import random

import pytest

from barnabas.broker.fetch.cache import EVICTION_MS, FetchSessionCache
from barnabas.broker.fetch.manager import FetchManager
from barnabas.broker.fetch.partition import FetchPartition
from barnabas.broker.fetch.session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_epoch
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.wire import Uuid
from tests.broker.fetch.readers import IDS, WITH_IDS, WITHOUT_IDS, Reader, error, keys, nothing, told
from tests.conformance.dialogues.words import fetch, fetch_topic, partition
from tests.support.chance import seeds


def test_a_full_fetch_returns_everything_and_opens_a_session() -> None:
    reader = Reader()
    context = reader.context(wanted=[("a", 0), ("a", 1), ("b", 0)], offset=7)
    assert keys(context) == [("a", 0), ("a", 1), ("b", 0)]
    first = context.partitions[0]
    assert (first.fetch_offset, first.max_bytes, first.current_leader_epoch, first.last_fetched_epoch) == (
        7,
        100,
        -1,
        -1,
    )
    response = context.response([nothing(partition) for partition in context.partitions])
    assert [(topic.topic, len(topic.partitions)) for topic in response.responses] == [("a", 2), ("b", 1)]
    assert response.session_id == 1
    assert (len(reader.cache), reader.cache.partition_count()) == (1, 3)


def test_the_final_epoch_closes_the_named_session_and_opens_none() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    context = reader.context(session_id, FINAL_EPOCH, [("a", 0)])
    response = context.response([nothing(context.partitions[0])])
    assert (response.session_id, told(response)) == (NO_SESSION, [("a", 0)])
    assert len(reader.cache) == 0


def test_a_full_fetch_replaces_the_named_session() -> None:
    reader = Reader()
    old = reader.begin(("a", 0))
    context = reader.context(old, INITIAL_EPOCH, [("b", 0)])
    new = context.response([nothing(context.partitions[0])]).session_id
    assert new not in (old, NO_SESSION)
    assert reader.cache.get(old) is None


def test_a_full_fetch_without_partitions_opens_a_session_to_add_them_to() -> None:
    reader = Reader()
    session_id = reader.begin()
    assert session_id != NO_SESSION
    context = reader.context(session_id, 1, [("a", 0)])
    assert told(context.response([nothing(context.partitions[0])])) == [("a", 0)]


def test_a_partition_requested_twice_is_read_once_with_the_last_values() -> None:
    context = Reader().context(wanted=[("a", 0), ("b", 0), ("a", 0)])
    assert keys(context) == [("a", 0), ("b", 0)]


def test_partitions_are_added_changed_and_forgotten() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0), ("a", 1))
    context = reader.context(session_id, 1, [("a", 1), ("b", 0)], [("a", 0), ("c", 9)], offset=5)
    assert [(p.topic, p.index, p.fetch_offset) for p in context.partitions] == [("a", 1, 5), ("b", 0, 5)]


def test_a_partition_both_requested_and_forgotten_is_forgotten() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0), ("a", 1))
    assert keys(reader.context(session_id, 1, [("a", 0), ("b", 0)], [("a", 0), ("b", 0)])) == [("a", 1)]


def test_a_session_without_partitions_ends() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    context = reader.context(session_id, 1, forgotten=[("a", 0)])
    assert keys(context) == []
    assert context.response([]).session_id == NO_SESSION
    assert reader.context(session_id, 2).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_the_request_that_closes_a_session_still_gets_its_partitions() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    context = reader.context(session_id, 1, [("a", 0)], [("a", 0)])
    response = context.response([nothing(context.partitions[0])])
    assert (response.session_id, told(response)) == (NO_SESSION, [("a", 0)])


@pytest.mark.parametrize(
    ("session_id", "epoch", "version", "code"),
    [
        (99, 1, WITHOUT_IDS, ErrorCode.FETCH_SESSION_ID_NOT_FOUND),
        (1, 2, WITHOUT_IDS, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        (1, 1, WITH_IDS, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR),
    ],
)
def test_a_request_that_does_not_match_its_session(
    session_id: int, epoch: int, version: int, code: ErrorCode
) -> None:
    reader = Reader()
    assert reader.begin(("a", 0)) == 1
    context = reader.context(session_id, epoch, version=version)
    assert context.error is code
    assert context.response([]) == FetchResponse(error_code=code)
    assert reader.context(1, 1).error is ErrorCode.NONE  # and the session continues


def test_from_version_13_topics_are_identified_by_id() -> None:
    reader = Reader()
    context = reader.context(wanted=[("a", 0)], version=WITH_IDS)
    response = context.response([nothing(context.partitions[0])])
    assert [topic.topic_id for topic in response.responses] == [IDS["a"]]
    again = reader.context(response.session_id, 1, [("b", 0)], [("a", 0)], version=WITH_IDS)
    assert keys(again) == [("b", 0)]
    assert reader.context(response.session_id, 2).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_unknown_topic_id_may_become_known() -> None:
    reader = Reader()
    del reader.names[IDS["a"]]
    session_id = reader.begin(("a", 0), version=WITH_IDS)
    assert keys(reader.context(session_id, 1, version=WITH_IDS)) == [(None, 0)]
    reader.names[IDS["a"]] = "a"
    assert keys(reader.context(session_id, 2, version=WITH_IDS)) == [("a", 0)]


class Broker:
    """Partitions that have a high watermark, a log start offset and sometimes an error or records."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.state = {(topic, index): [0, 0] for topic in IDS for index in range(3)}
        self.failed: set[tuple[str, int]] = set()
        self.records: set[tuple[str, int]] = set()

    def live(self) -> None:
        key = self.source.choice([*self.state])
        match self.source.randrange(5):
            case 0:
                self.state[key][0] += 1
            case 1:
                self.state[key][1] += 1
            case 2:
                self.failed ^= {key}
            case 3:
                self.records ^= {key}

    def read(self, partition: FetchPartition) -> FetchResponse.PartitionData:
        assert partition.topic is not None
        key = (partition.topic, partition.index)
        if key in self.failed:
            return error(partition)
        high_watermark, log_start_offset = self.state[key]
        return nothing(partition, high_watermark, log_start_offset, b"batch" if key in self.records else b"")


class IncrementalReader:
    """A client of KIP-227 that keeps the last result of each partition."""

    def __init__(self, reader: Reader, broker: Broker, version: int) -> None:
        self.reader, self.broker, self.version = reader, broker, version
        self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
        self.wanted: set[tuple[str, int]] = set()
        self.knows: dict[tuple[str, int], tuple[int, int, int]] = {}

    def fetch(self, add: set[tuple[str, int]], drop: set[tuple[str, int]]) -> None:
        self.wanted = (self.wanted | add) - drop
        full = self.epoch == INITIAL_EPOCH
        context = self.reader.context(
            self.session_id,
            self.epoch,
            sorted(self.wanted if full else add),
            [] if full else sorted(drop),
            version=self.version,
        )
        response = context.response([self.broker.read(partition) for partition in context.partitions])
        if response.error_code:
            self.session_id, self.epoch = NO_SESSION, INITIAL_EPOCH
            return
        self._learn(response)
        self.session_id = response.session_id
        self.epoch = next_epoch(self.epoch) if self.session_id != NO_SESSION else INITIAL_EPOCH

    def _learn(self, response: FetchResponse) -> None:
        names = {topic_id: name for name, topic_id in IDS.items()}
        if self.epoch == INITIAL_EPOCH:
            self.knows = {}
        for topic in response.responses:
            for data in topic.partitions:
                name = topic.topic or names[topic.topic_id]
                self.knows[name, data.partition_index] = seen(data)
        self.knows = {key: known for key, known in self.knows.items() if key in self.wanted}


def seen(data: FetchResponse.PartitionData) -> tuple[int, int, int]:
    return data.error_code, data.high_watermark, data.log_start_offset


@pytest.mark.parametrize("version", [WITHOUT_IDS, WITH_IDS])
@pytest.mark.parametrize("seed", seeds(20))
def test_random_incremental_readers_know_what_a_full_fetch_would_return(seed: int, version: int) -> None:
    source = random.Random(seed)
    broker = Broker(source)
    reader = Reader(slots=2)
    clients = [IncrementalReader(reader, broker, version) for _ in range(3)]
    everything = sorted(broker.state)
    for _ in range(300):
        for _ in range(source.randrange(3)):
            broker.live()
        reader.clock.ms += source.choice([0, 10, EVICTION_MS // 2])
        client = source.choice(clients)
        if source.random() < 0.05:
            reader.cache.remove(client.session_id)  # as a restart of the broker would
        add = set(source.sample(everything, source.randrange(3)))
        drop = set(source.sample(everything, source.randrange(3))) - add
        client.fetch(add, drop)
        if client.epoch == INITIAL_EPOCH:
            continue  # no session, or an error: it starts with a full fetch
        full = reader.context(wanted=sorted(client.wanted), epoch=FINAL_EPOCH, version=version)
        expected = {
            (partition.topic, partition.index): seen(broker.read(partition)) for partition in full.partitions
        }
        assert client.knows == expected


def test_the_name_of_an_id_comes_from_the_metadata() -> None:
    asked: list[Uuid] = []

    def name_of(topic_id: Uuid) -> str:
        asked.append(topic_id)
        return "a"

    request = FetchRequest(
        session_epoch=FINAL_EPOCH,
        topics=[FetchRequest.FetchTopic(topic_id=IDS["a"], partitions=[FetchRequest.FetchPartition()])],
    )
    context = Reader().manager.context(request, WITH_IDS, name_of, is_follower=False)
    assert (keys(context), asked) == ([("a", 0)], [IDS["a"]])


def test_remembered_sessionless_readers_are_bounded() -> None:
    manager = FetchManager(
        FetchSessionCache(0, lambda: 1), lambda: 0, max_unnamed_sessions=3, max_unnamed_partitions=10
    )

    def ask(connection: int, partitions: int) -> list[FetchPartition]:
        request = fetch(fetch_topic("t", [partition(index) for index in range(partitions)]))
        context = manager.context(
            request, WITHOUT_IDS, lambda _: None, is_follower=False, connection_id=connection
        )
        return [one for topic in context.named for one in topic.entries]

    first = ask(1, 4)
    assert ask(1, 4) == first
    ask(2, 4)
    assert ask(1, 3) == first[:3]  # used last
    ask(3, 4)
    assert list(manager._unnamed) == [1, 3]
    for connection in (4, 5):
        ask(connection, 1)
    assert list(manager._unnamed) == [3, 4, 5]
    ask(6, 20)
    assert (list(manager._unnamed), manager._unnamed_partitions) == ([6], 20)
