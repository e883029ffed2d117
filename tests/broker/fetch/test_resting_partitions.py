"""Partitions that rest: whoever reads through a session, or again on one connection, hears what a first fetch would.

The model is a full fetch that opens a session: it knows nothing of what was asked before, and reads everything.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.fetch.partition import size_of
from barnabas.broker.fetch.session import FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, FetchSession, next_epoch
from barnabas.broker.kafka_apis.handlers.fetch import READ_COMMITTED
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.offsets import DeleteRecordsRequest
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.offsets import AppendOrigin, LogStartOffsetIncrementReason
from tests.broker.broker_fixture import NODE_ID, Client, InProcessBroker, Wait
from tests.broker.coordinator.transaction.txn_fakes import PRODUCER_ID, txn_batch
from tests.broker.logs import START_MS, batch
from tests.conformance.dialogues.words import fetch, fetch_topic, partition, produce
from tests.support.chance import seeds

BY_NAME, BY_ID = 12, 16
TOPICS, PARTITIONS = ("a", "b"), 3
Key = tuple[str, int]
KEYS: list[Key] = [(topic, index) for topic in TOPICS for index in range(PARTITIONS)]


class FetchHarness:
    """A broker with two topics, to which everything happens."""

    def __init__(self, directory: Path, source: random.Random) -> None:
        self.broker = InProcessBroker(directory)
        self.source = source
        self.ids = {topic: self.broker.create_topic(topic, PARTITIONS) for topic in TOPICS}
        self.writer = self.broker.client(version=BY_NAME)
        self.producer_ids = itertools.count(1000)
        self.open_transactions: dict[Key, int] = {}

    @property
    def events(self) -> list[Callable[[Key], None]]:
        return [
            self.append,
            self.append,
            self.append,
            self.transaction,
            self.cut,
            self.move,
            self.renew,
            self.sleep,
        ]

    def happen(self) -> None:
        self.source.choice(self.events)(self.source.choice(KEYS))

    def append(self, key: Key) -> None:
        topic, index = key
        self.writer.ask(produce(topic, batch(*"xy" * self.source.randrange(1, 3)), first_partition=index))

    def transaction(self, key: Key) -> None:
        """Begins one, or ends the one that is open."""
        append = self.broker.replica_manager.append_records
        if key not in self.open_transactions:
            self.open_transactions[key] = next(self.producer_ids)
            records = txn_batch("t", producer_id=self.open_transactions[key])
            append([(*key, ZERO_UUID, records, None)], -1, 500)
            return
        marker = end_transaction_marker(
            commit=self.source.random() < 0.5,
            coordinator_epoch=0,
            producer_id=self.open_transactions.pop(key),
            producer_epoch=0,
            timestamp=START_MS,
        )
        append([(*key, ZERO_UUID, marker, None)], -1, 500, origin=AppendOrigin.COORDINATOR)

    def cut(self, key: Key) -> None:
        """Records are deleted from the beginning."""
        topic, index = key
        log = self.broker.replica_manager.partition(topic, index).log
        offset = self.source.randint(log.log_start_offset, log.high_watermark)
        asked = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
        named = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[asked])
        self.broker.client(version=2).ask(DeleteRecordsRequest(topics=[named], timeout_ms=1000))

    def move(self, key: Key) -> None:
        """Another node leads, or this one again, in a new epoch."""
        topic, index = key
        here = self.broker.broker.image.topics[topic].partitions[index].leader == NODE_ID
        change = PartitionChangeRecord(
            partition_id=index, topic_id=self.ids[topic], leader=NODE_ID + 1 if here else NODE_ID
        )
        self.broker.controller.submit(lambda _: Decision(True, [change]), lambda _: False)

    def renew(self, key: Key) -> None:
        """The topic is deleted and made anew, now and then."""
        topic, _ = key
        if self.source.random() < 0.2:
            self.broker.client(version=5).ask(DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000))
            self.ids[topic] = self.broker.create_topic(topic, PARTITIONS)
            for index in range(PARTITIONS):
                self.open_transactions.pop((topic, index), None)

    def sleep(self, _: Key) -> None:
        self.writer >> Wait(self.source.choice([0.01, 0.7]))


class Reader:
    """What a consumer keeps of each partition: where it goes on."""

    def __init__(self, harness: FetchHarness, version: int) -> None:
        self.harness, self.version = harness, version
        self.client = harness.broker.client(version)
        self.offsets = dict.fromkeys(KEYS, 0)

    def wanted(self, keys: list[Key], **options: Any) -> FetchRequest:
        ids = self.harness.ids
        return fetch(
            *(
                fetch_topic(
                    ids[topic] if self.version >= BY_ID else topic,
                    [partition(index, self.offsets[topic, index]) for name, index in keys if name == topic],
                )
                for topic in dict.fromkeys(topic for topic, _ in keys)
            ),
            **options,
        )

    def forgotten(self, keys: list[Key]) -> list[FetchRequest.ForgottenTopic]:
        return [
            FetchRequest.ForgottenTopic(
                topic="" if self.version >= BY_ID else topic,
                topic_id=self.harness.ids[topic] if self.version >= BY_ID else ZERO_UUID,
                partitions=[index],
            )
            for topic, index in keys
        ]

    def told(self, response: FetchResponse) -> dict[Key, FetchResponse.PartitionData]:
        """By the name; not of a topic that has gone meanwhile."""
        names: dict[Uuid, str] = {topic_id: name for name, topic_id in self.harness.ids.items()}
        return {
            (name, data.partition_index): data
            for topic in response.responses
            for data in topic.partitions
            if (name := topic.topic or names.get(topic.topic_id, ""))
        }

    def go_on(self, key: Key, data: FetchResponse.PartitionData) -> None:
        """Takes what came, nearly always."""
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self.offsets[key] = self.harness.broker.replica_manager.partition(*key).log.log_start_offset
        elif size_of(data) and self.harness.source.random() < 0.8:
            self.offsets[key] = data.last_stable_offset


def answers(client: Client) -> list[FetchResponse]:
    """What has come since the last request, if anything."""
    heard, client._answers = client._answers, []
    return cast("list[FetchResponse]", heard)


def without_session(responses: list[FetchResponse]) -> list[FetchResponse]:
    for response in responses:
        response.session_id = NO_SESSION
    return responses


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize("seed", seeds(6))
def test_who_asks_again_without_a_session_hears_what_a_first_fetch_would(
    tmp_path: Path, seed: int, version: int
) -> None:
    source = random.Random(seed)
    harness = FetchHarness(tmp_path, source)
    readers = [Reader(harness, version) for _ in range(2)]
    for _ in range(250):
        if source.random() < 0.6:
            harness.happen()
        reader = source.choice(readers)
        keys = source.sample(KEYS, source.randint(0, len(KEYS))) if source.random() < 0.3 else KEYS
        turn = source.randrange(len(KEYS))
        keys = keys[turn:] + keys[:turn]  # as librdkafka does it
        options = {
            "max_wait_ms": source.choice([0, 500]),
            "min_bytes": source.choice([0, 1, 1, 300]),
            "max_bytes": source.choice([1, 200, 10_000, 10_000]),
            "isolation_level": source.choice([0, 0, 0, 1]),
        }
        model = harness.broker.client(version)
        model >> reader.wanted(keys, session_epoch=INITIAL_EPOCH, **options)
        reader.client >> reader.wanted(keys, session_epoch=FINAL_EPOCH, **options)
        heard = answers(reader.client)
        assert heard == without_session(answers(model))
        if not heard:
            harness.happen()
            heard = answers(reader.client)
            assert heard == without_session(answers(model))
        if not heard:
            model >> Wait(0.5)
            heard = answers(reader.client)
            assert heard == without_session(answers(model))
        (response,) = heard
        for key, data in reader.told(response).items():
            reader.go_on(key, data)
    harness.broker.kill()


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize("seed", seeds(6))
def test_a_session_knows_what_a_first_fetch_would_tell(tmp_path: Path, seed: int, version: int) -> None:
    source = random.Random(seed)
    harness = FetchHarness(tmp_path, source)
    reader = Reader(harness, version)
    session, epoch = NO_SESSION, INITIAL_EPOCH
    ids: dict[str, Uuid] = {}
    known: dict[Key, tuple[int, int, int]] = {}
    asked: dict[Key, int] = {}
    for _ in range(300):
        if source.random() < 0.6:
            harness.happen()
        if ids != harness.ids and version >= BY_ID:  # the reader would find out, and begin again
            session, epoch, ids = NO_SESSION, INITIAL_EPOCH, dict(harness.ids)
        if epoch == INITIAL_EPOCH:
            known, asked = {}, {}
        add = source.sample(KEYS, source.randrange(3)) if asked else list(KEYS)
        add += [key for key in asked if asked[key] != reader.offsets[key] and key not in add]
        drop = [key for key in source.sample(KEYS, source.randrange(2)) if key in asked and key not in add]
        asked |= {key: reader.offsets[key] for key in add}
        request = reader.wanted(add, session_id=session, session_epoch=epoch, max_wait_ms=500)
        if epoch != INITIAL_EPOCH:
            request.forgotten_topics_data = reader.forgotten(drop)
            asked = {key: offset for key, offset in asked.items() if key not in drop}
        reader.client >> request
        heard = answers(reader.client)
        is_whole = True
        if not heard:
            harness.happen()
            heard = answers(reader.client)
            is_whole = not heard  # or it was given while things still happened
        if not heard:
            reader.client >> Wait(0.5)
            heard = answers(reader.client)
        (response,) = heard
        if (
            response.error_code
            or response.session_id == NO_SESSION
            or (ids != harness.ids and version >= BY_ID)
        ):
            session, epoch = NO_SESSION, INITIAL_EPOCH
            continue
        told = reader.told(response)
        known |= {
            key: (data.error_code, data.high_watermark, data.log_start_offset) for key, data in told.items()
        }
        full = Reader(harness, version)
        full.offsets = dict(reader.offsets)
        whole = full.client.ask(full.wanted(list(asked)))
        assert isinstance(whole, FetchResponse)
        for key, data in full.told(whole).items() if is_whole else ():
            assert known[key] == (data.error_code, data.high_watermark, data.log_start_offset)
            assert size_of(told[key] if key in told else FetchResponse.PartitionData()) == size_of(data)
        for key, data in told.items():
            reader.go_on(key, data)
        session, epoch = response.session_id, next_epoch(epoch)
    harness.broker.kill()


# ---- what it is worth


def session_of(broker: InProcessBroker) -> FetchSession:
    """The one session that there is."""
    manager = broker.broker.fetch_manager
    (session,) = [*manager.cache._sessions.values(), *manager._unnamed.values()]
    return session


@pytest.mark.parametrize("epoch", [INITIAL_EPOCH, FINAL_EPOCH])
def test_what_has_nothing_new_is_not_read(broker: InProcessBroker, epoch: int) -> None:
    topic_id = broker.create_topic("t", 50)
    reader = broker.client(BY_ID)

    def ask(*changed: FetchRequest.FetchPartition, again: int, max_wait_ms: int = 0) -> FetchRequest:
        all_of_them = [partition(index) for index in range(50)]
        wanted = fetch_topic(topic_id, all_of_them if again == 0 or epoch == FINAL_EPOCH else changed)
        number = epoch if epoch == FINAL_EPOCH else again
        session_id = session_of(broker).session_id if again else NO_SESSION
        return fetch(wanted, session_id=session_id, session_epoch=number, max_wait_ms=max_wait_ms)

    reader.ask(ask(again=0))
    reader.ask(ask(again=1))
    session = session_of(broker)
    assert (len(session.active), session.resting) == (0, {"t": 50})
    before = broker.topics.topics["t"].total_fetch_requests
    reader >> ask(again=2, max_wait_ms=500)
    broker.client(BY_NAME).ask(produce("t", batch("x"), first_partition=7))
    (response,) = answers(reader)
    assert sum(size_of(data) > 0 for topic in response.responses for data in topic.partitions) == 1
    assert [entry.index for entry in session.active] == [7]
    assert (
        broker.topics.topics["t"].total_fetch_requests == before + 50
    )  # what rests was asked for all the same


def test_what_nobody_called_for_is_found_within_a_second(broker: InProcessBroker) -> None:
    topic_id = broker.create_topic("t")
    broker.client(BY_NAME).ask(produce("t", batch("x", "y")))
    reader = broker.client(BY_ID)
    asked = fetch(fetch_topic(topic_id, [partition(0, 2)]))
    for _ in range(2):
        reader.ask(asked)
    log = broker.replica_manager.partition("t", 0).log
    log.maybe_increment_log_start_offset(1, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    reader >> Wait(1)
    response = reader.ask(asked)
    assert isinstance(response, FetchResponse)
    assert response.responses[0].partitions[0].log_start_offset == 1


def test_what_rests_in_the_read_that_its_own_change_set_off_is_woken_by_the_next(
    broker: InProcessBroker,
) -> None:
    """One request appends to both; the reader may not see the records of one yet, so that rests in the same call."""
    topic_id = broker.create_topic("t", 2)
    reader, append = broker.client(BY_ID), broker.replica_manager.append_records

    def ask(offset: int, max_wait_ms: int) -> FetchRequest:
        wanted = fetch_topic(topic_id, [partition(0), partition(1, offset)])
        return fetch(wanted, max_wait_ms=max_wait_ms, isolation_level=READ_COMMITTED)

    for _ in range(2):
        reader.ask(ask(0, 0))
    reader >> ask(0, 500)
    append([("t", 0, ZERO_UUID, txn_batch("a"), None), ("t", 1, ZERO_UUID, batch("b"), None)], -1, 500)
    assert len(answers(reader)) == 1
    reader >> ask(1, 500)
    assert not answers(reader)
    marker = end_transaction_marker(
        commit=True, coordinator_epoch=0, producer_id=PRODUCER_ID, producer_epoch=0, timestamp=START_MS
    )
    append([("t", 0, ZERO_UUID, marker, None)], -1, 500, origin=AppendOrigin.COORDINATOR)
    (response,) = answers(reader)
    assert [size_of(data) > 0 for data in response.responses[0].partitions] == [True, False]


def test_a_second_fetch_beside_one_that_waits_is_read_by_itself(broker: InProcessBroker) -> None:
    topic_id = broker.create_topic("t", 2)
    reader = broker.client(BY_ID)
    reader >> fetch(fetch_topic(topic_id, [partition(0)]), max_wait_ms=500)
    second = reader.ask(fetch(fetch_topic(topic_id, [partition(1)])))
    assert isinstance(second, FetchResponse)
    assert [data.partition_index for data in second.responses[0].partitions] == [1]
    broker.client(BY_NAME).ask(produce("t", batch("x")))
    (first,) = answers(reader)
    assert [data.partition_index for data in first.responses[0].partitions] == [0]


@pytest.mark.parametrize("ending", ["removed", "evicted"])
def test_a_session_that_ends_while_its_fetch_waits_still_answers_and_leaves_nobody_behind(
    broker: InProcessBroker, ending: str
) -> None:
    topic_id = broker.create_topic("t")
    reader = broker.client(BY_ID)
    begun = reader.ask(fetch(fetch_topic(topic_id, [partition()]), session_epoch=INITIAL_EPOCH))
    assert isinstance(begun, FetchResponse)
    reader >> fetch(session_id=begun.session_id, session_epoch=1, max_wait_ms=500)
    cache = broker.broker.fetch_manager.cache
    if ending == "removed":
        cache.remove(begun.session_id)
    else:
        cache._slots = 1
        assert cache.maybe_create({}, privileged=True, uses_topic_ids=True, now_ms=0) is not None
    broker.client(BY_NAME).ask(produce("t", batch("x")))
    (response,) = answers(reader)
    assert size_of(response.responses[0].partitions[0]) > 0
    assert not any(broker.replica_manager.fetch_purgatory._watchers.values())
