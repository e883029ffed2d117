"""Fetch sessions: what an incremental reader puts together is what a full fetch would have told it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest

from broker.fetch.cache import EVICTION_MS, FetchSessionCache
from broker.fetch.context import FetchContext
from broker.fetch.manager import FetchManager
from broker.fetch.partition import FetchPartition
from broker.fetch.session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, next_epoch
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse
from protocol.wire import ZERO_UUID, Uuid
from tests.support.chance import seeds

WITHOUT_IDS, WITH_IDS = 12, 13
IDS = {"a": b"a" * 16, "b": b"b" * 16, "c": b"c" * 16}


class Clock:
    """Wall time in milliseconds, moved by the test."""

    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


class Reader:
    """What a test says to a FetchManager; the answer of each partition is the test's too."""

    def __init__(self, slots: int = 10, max_partitions: int = 1000) -> None:
        self.clock = Clock()
        self.cache = FetchSessionCache(slots, _counting(), max_partitions)
        self.manager = FetchManager(self.cache, self.clock)
        self.names = {topic_id: name for name, topic_id in IDS.items()}

    def context(
        self,
        session_id: int = NO_SESSION,
        epoch: int = INITIAL_EPOCH,
        wanted: Sequence[tuple[str, int]] = (),
        forgotten: Sequence[tuple[str, int]] = (),
        *,
        offset: int = 0,
        version: int = WITHOUT_IDS,
        is_follower: bool = False,
    ) -> FetchContext:
        request = FetchRequest(
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchRequest.FetchTopic(
                    topic=name if version < WITH_IDS else "",
                    topic_id=IDS.get(name, b"?" * 16) if version >= WITH_IDS else ZERO_UUID,
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=index, fetch_offset=offset, partition_max_bytes=100
                        )
                    ],
                )
                for name, index in wanted
            ],
            forgotten_topics_data=[
                FetchRequest.ForgottenTopic(
                    topic=name if version < WITH_IDS else "",
                    topic_id=IDS.get(name, b"?" * 16) if version >= WITH_IDS else ZERO_UUID,
                    partitions=[index],
                )
                for name, index in forgotten
            ],
        )
        return self.manager.context(request, version, self.names.get, is_follower=is_follower)

    def begin(self, *wanted: tuple[str, int], **options: int) -> int:
        """The id of a new session over `wanted`, whose reader has heard of each that it is empty."""
        version = options.get("version", WITHOUT_IDS)
        context = self.context(wanted=wanted, version=version, is_follower=bool(options.get("is_follower")))
        return context.response([nothing(partition) for partition in context.partitions]).session_id


def _counting() -> Callable[[], int]:
    numbers = iter(range(1, 1_000_000))
    return lambda: next(numbers)


def nothing(
    partition: FetchPartition, high_watermark: int = 0, log_start_offset: int = 0, records: bytes = b""
) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        partition_index=partition.index,
        high_watermark=high_watermark,
        last_stable_offset=high_watermark,
        log_start_offset=log_start_offset,
        aborted_transactions=None,
        records=records,
    )


def error(partition: FetchPartition) -> FetchResponse.PartitionData:
    data = nothing(partition, -1, -1)
    data.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return data


def told(response: FetchResponse) -> list[tuple[str, int]]:
    return [(topic.topic, data.partition_index) for topic in response.responses for data in topic.partitions]


def keys(context: FetchContext) -> list[tuple[str | None, int]]:
    return [(partition.topic, partition.index) for partition in context.partitions]


# ---- full fetches


def test_a_full_fetch_tells_everything_and_opens_a_session() -> None:
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


def test_the_final_epoch_opens_no_session_and_closes_the_one_it_names() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    context = reader.context(session_id, FINAL_EPOCH, [("a", 0)])
    response = context.response([nothing(context.partitions[0])])
    assert (response.session_id, told(response)) == (NO_SESSION, [("a", 0)])
    assert len(reader.cache) == 0


def test_a_full_fetch_puts_a_new_session_in_the_place_of_the_one_it_names() -> None:
    reader = Reader()
    old = reader.begin(("a", 0))
    context = reader.context(old, INITIAL_EPOCH, [("b", 0)])
    new = context.response([nothing(context.partitions[0])]).session_id
    assert new not in (old, NO_SESSION)
    assert reader.cache.get(old) is None


def test_a_full_fetch_of_nothing_opens_a_session_that_partitions_can_join() -> None:
    reader = Reader()
    session_id = reader.begin()
    assert session_id != NO_SESSION
    context = reader.context(session_id, 1, [("a", 0)])
    assert told(context.response([nothing(context.partitions[0])])) == [("a", 0)]


def test_a_partition_asked_for_twice_is_read_once_as_it_was_named_last() -> None:
    context = Reader().context(wanted=[("a", 0), ("b", 0), ("a", 0)])
    assert keys(context) == [("a", 0), ("b", 0)]


# ---- incremental fetches


def test_an_incremental_answer_holds_only_news() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0), ("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1))
    context = reader.context(session_id, 1)
    same, records, high_watermark, log_start, diverging, other_replica = context.partitions
    answers = [
        nothing(same),
        nothing(records, records=b"batch"),
        nothing(high_watermark, high_watermark=1),
        nothing(log_start, log_start_offset=1),
        nothing(diverging),
        nothing(other_replica),
    ]
    answers[4].diverging_epoch = FetchResponse.EpochEndOffset(epoch=3, end_offset=4)
    answers[5].preferred_read_replica = 2
    response = context.response(answers)
    assert response.session_id == session_id
    assert told(response) == [("a", 1), ("b", 0), ("b", 1), ("c", 0), ("c", 1)]


def test_an_error_is_told_every_time_and_its_end_as_well() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    for epoch in (1, 2):
        context = reader.context(session_id, epoch)
        assert told(context.response([error(context.partitions[0])])) == [("a", 0)]
    context = reader.context(session_id, 3)
    assert told(context.response([nothing(context.partitions[0])])) == [("a", 0)]
    context = reader.context(session_id, 4)
    assert told(context.response([nothing(context.partitions[0])])) == []


def test_a_partition_that_gave_records_goes_to_the_end() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0), ("a", 1), ("a", 2))
    context = reader.context(session_id, 1)
    first, *others = context.partitions
    context.response([nothing(first, records=b"batch"), *map(nothing, others)])
    assert keys(reader.context(session_id, 2)) == [("a", 1), ("a", 2), ("a", 0)]


def test_records_in_a_file_count_by_their_size() -> None:
    class Slice:
        size = 0

        def read(self) -> bytes:
            raise AssertionError("nobody needs the bytes to know how many there are")

    reader = Reader()
    session_id = reader.begin(("a", 0))
    context = reader.context(session_id, 1)
    data = nothing(context.partitions[0])
    data.records = Slice()
    assert told(context.response([data])) == []


def test_partitions_join_change_and_leave() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0), ("a", 1))
    context = reader.context(session_id, 1, [("a", 1), ("b", 0)], [("a", 0), ("c", 9)], offset=5)
    assert [(p.topic, p.index, p.fetch_offset) for p in context.partitions] == [("a", 1, 5), ("b", 0, 5)]


def test_what_is_wanted_and_forgotten_at_once_is_forgotten() -> None:
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


def test_what_the_last_request_of_a_session_wants_it_gets() -> None:
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
def test_a_session_that_the_request_does_not_fit(
    session_id: int, epoch: int, version: int, code: ErrorCode
) -> None:
    reader = Reader()
    assert reader.begin(("a", 0)) == 1
    context = reader.context(session_id, epoch, version=version)
    assert context.error is code
    assert context.response([]) == FetchResponse(error_code=code)
    assert reader.context(1, 1).error is ErrorCode.NONE  # and the session goes on


def test_an_answer_that_the_session_has_overtaken_is_an_error() -> None:
    reader = Reader()
    session_id = reader.begin(("a", 0))
    slow = reader.context(session_id, 1)
    fast = reader.context(session_id, 2)
    answers = [nothing(fast.partitions[0], high_watermark=5)]
    assert told(fast.response(answers)) == [("a", 0)]
    assert slow.response(answers) == FetchResponse(
        session_id=session_id, error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH
    )


def test_epochs_go_round_without_touching_those_that_mean_something() -> None:
    assert [next_epoch(0), next_epoch(1), next_epoch(0x7FFFFFFE)] == [1, 2, 0x7FFFFFFF]
    assert next_epoch(0x7FFFFFFF) == 1
    reader = Reader()
    session_id = reader.begin(("a", 0))
    session = reader.cache.get(session_id)
    assert session is not None
    session.epoch = 0x7FFFFFFF
    assert reader.context(session_id, 0x7FFFFFFF).error is ErrorCode.NONE
    assert reader.context(session_id, 1).error is ErrorCode.NONE


# ---- topic ids


def test_from_version_13_topics_go_by_id() -> None:
    reader = Reader()
    context = reader.context(wanted=[("a", 0)], version=WITH_IDS)
    response = context.response([nothing(context.partitions[0])])
    assert [topic.topic_id for topic in response.responses] == [IDS["a"]]
    again = reader.context(response.session_id, 1, [("b", 0)], [("a", 0)], version=WITH_IDS)
    assert keys(again) == [("b", 0)]
    assert reader.context(response.session_id, 2).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_id_that_nobody_knows_may_become_known() -> None:
    reader = Reader()
    del reader.names[IDS["a"]]
    session_id = reader.begin(("a", 0), version=WITH_IDS)
    assert keys(reader.context(session_id, 1, version=WITH_IDS)) == [(None, 0)]
    reader.names[IDS["a"]] = "a"
    assert keys(reader.context(session_id, 2, version=WITH_IDS)) == [("a", 0)]


# ---- room for sessions


def test_a_full_cache_leaves_newcomers_with_full_fetches() -> None:
    reader = Reader(slots=1)
    first = reader.begin(("a", 0), ("a", 1))
    assert reader.begin(("b", 0), ("b", 1), ("b", 2)) == NO_SESSION
    assert reader.cache.get(first) is not None
    assert Reader(slots=0).begin(("a", 0)) == NO_SESSION


def test_more_partitions_than_there_is_room_for_are_left_with_full_fetches() -> None:
    reader = Reader(max_partitions=4)
    first = reader.begin(("a", 0), ("a", 1))
    assert reader.begin(("b", 0), ("b", 1), ("b", 2)) == NO_SESSION
    second = reader.begin(("b", 0), ("b", 1))
    assert reader.cache.partition_count() == 4
    reader.clock.ms += EVICTION_MS + 1
    reader.context(second, 1, forgotten=[("b", 1)])
    assert reader.begin(*(("c", number) for number in range(5))) == NO_SESSION  # in vain, so nobody has to go
    assert (len(reader.cache), reader.cache.partition_count()) == (2, 3)
    assert reader.begin(("c", 0), ("c", 1), ("c", 2)) != NO_SESSION
    assert (reader.cache.get(first), reader.cache.get(second) is None) == (None, False)
    assert reader.cache.partition_count() == 4


def test_a_session_that_grows_beyond_the_room_there_is_comes_to_its_end() -> None:
    reader = Reader(max_partitions=4)
    other = reader.begin(("a", 0))
    growing = reader.begin(("b", 0), ("b", 1))
    assert keys(reader.context(growing, 1, [("b", 2)])) == [("b", 0), ("b", 1), ("b", 2)]
    assert reader.context(growing, 2, [("b", 3)]).error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (reader.cache.get(growing), reader.cache.get(other) is None) == (None, False)
    assert reader.cache.partition_count() == 1


def test_an_id_that_is_taken_or_means_none_is_drawn_again() -> None:
    drawn = iter([0, 5, 0, 5, 6])
    cache = FetchSessionCache(10, lambda: next(drawn))
    reader = Reader()
    reader.manager = FetchManager(cache, reader.clock)
    assert [reader.begin(("a", 0)), reader.begin(("a", 0))] == [5, 6]


def test_a_session_that_nobody_has_used_for_long_makes_room() -> None:
    reader = Reader(slots=2)
    unused = reader.begin(("a", 0), ("a", 1), ("a", 2), is_follower=1)
    used = reader.begin(("b", 0))
    reader.clock.ms += EVICTION_MS
    reader.context(used, 1)
    assert reader.begin(("c", 0)) == NO_SESSION  # not long enough yet
    reader.clock.ms += 1
    assert reader.begin(("c", 0)) != NO_SESSION
    assert (reader.cache.get(unused), reader.cache.get(used) is None) == (None, False)
    assert reader.cache.eviction_count == 1


def test_a_larger_reader_takes_the_place_of_a_smaller_one_that_has_had_its_time() -> None:
    reader = Reader(slots=2)
    small = reader.begin(("a", 0), ("a", 1))
    large = reader.begin(("b", 0), ("b", 1), ("b", 2))
    reader.clock.ms += EVICTION_MS + 1
    for session_id in (small, large):
        reader.context(session_id, 1)
    assert reader.begin(("c", 0), ("c", 1)) == NO_SESSION  # no larger than the smallest
    assert reader.begin(("c", 0), ("c", 1), ("c", 2)) != NO_SESSION
    assert (reader.cache.get(small), reader.cache.get(large) is None) == (None, False)


def test_a_follower_takes_the_place_of_any_consumer_and_no_consumer_that_of_a_follower() -> None:
    reader = Reader(slots=1)
    consumer = reader.begin(("a", 0), ("a", 1), ("a", 2))
    follower = reader.begin(("b", 0), is_follower=1)
    assert follower != NO_SESSION
    assert reader.cache.get(consumer) is None
    assert reader.begin(("c", 0), is_follower=1) == NO_SESSION
    reader.clock.ms += EVICTION_MS + 1
    reader.context(follower, 1)
    assert reader.begin(("c", 0), ("c", 1), ("c", 2)) == NO_SESSION


# ---- against a model


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
    """A client of KIP-227 that keeps what it was told last of each partition."""

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
def test_random_readers_always_know_what_a_full_fetch_would_tell_them(seed: int, version: int) -> None:
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
            continue  # no session, or an error: it starts anew the next time
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
