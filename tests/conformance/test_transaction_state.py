"""Transactions under every transaction.version, and the records in __transaction_state afterwards, beside Apache Kafka.

Apache Kafka and Barnabas receive the same requests, with a restart in between. Responses must be equal, and so must
every byte of the records except the times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from barnabas.broker.coordinator.records import TRANSACTION_RECORDS, CoordinatorRecord, RecordSerde
from barnabas.broker.coordinator.transaction.metadata import MAX_EPOCH
from barnabas.broker.metadata.internal_topics import TRANSACTION_STATE, partition_for
from barnabas.protocol.messages.cluster import UpdateFeaturesRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.producers import DescribeTransactionsRequest, ListTransactionsRequest
from barnabas.protocol.messages.transaction_state import TransactionLogKey, TransactionLogValue
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
)
from barnabas.protocol.records.entries import batches
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues import transactions
from tests.conformance.dialogues.transactional import LONG_MS, Producer, init, sorted_results
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.conformance

PARTITIONS: Final = 3
SETTINGS = {
    "node.id": "1",
    "num.partitions": "1",
    "transaction.state.log.num.partitions": str(PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transaction.two.phase.commit.enable": "true",
    "unstable.api.versions.enable": "true",
}
SERDE = RecordSerde(TRANSACTION_RECORDS)
ADMIN_CLIENT: Final = "__admin_client"
"""The client that may write to internal topics."""

TWO_PHASE_COMMIT: Final = 6
"""The first version of InitProducerId with two-phase commit."""

SAFE_DOWNGRADE: Final = 2

Play = Callable[[DialogueClient], None]


class Sides:
    """Apache Kafka and Barnabas."""

    def __init__(self, directory: Path) -> None:
        (directory / "kafka").mkdir()
        self.kafka = ApacheKafka(directory / "kafka", require_classpath(), SETTINGS)
        self.barnabas = BrokerProcess(directory / "barnabas", {**SETTINGS, "barnabas.profile": "kafka"})

    def start(self) -> None:
        self.kafka.start()
        self.barnabas.start()

    def stop(self) -> None:
        assert self.kafka.stop() == self.kafka.clean_status
        assert self.barnabas.stop() == self.barnabas.clean_status

    def kill(self) -> None:
        self.kafka.kill()
        self.barnabas.kill()

    def both(self, name: str, play: Play, version: int = 5) -> None:
        """Holds a play with each broker; the transcripts must be equal."""
        kafka, barnabas = (self._hold(side.port, name, play, version) for side in (self.kafka, self.barnabas))
        assert barnabas == kafka, name

    def _hold(self, port: int, name: str, play: Play, version: int) -> list[object]:
        with BrokerConnection("127.0.0.1", port) as connection:
            client = DialogueClient(connection, version, f"{name}-v{version}")
            play(client)
            return client.transcript


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[Sides]:
    both = Sides(tmp_path)
    yield both
    both.kill()


# ---- plays


def before_there_is_a_coordinator(client: DialogueClient) -> None:
    name = client.topic("tx")
    client.request(init(transactional_id=name))
    client.request(EndTxnRequest(transactional_id=name, producer_id=1, producer_epoch=0, committed=True))
    client.request(
        AddPartitionsToTxnRequest(v3_and_below_transactional_id=name, v3_and_below_topics=[]),
        3,
        noting=sorted_results,
    )
    client.request(AddOffsetsToTxnRequest(transactional_id=name, group_id="g"), 4)
    client.request(DescribeTransactionsRequest(transactional_ids=[name]), 0)
    client.request(ListTransactionsRequest(), 2)
    client.request_until(
        init(transactional_id=None), lambda answer: answer.error_code == 0
    )  # Kafka fetches ids by and by


def until_there_are_ids(client: DialogueClient) -> None:
    """Waits for the first block of producer ids: Kafka rejects InitProducerId until it has fetched one."""
    client.request_until(init(transactional_id=None), lambda answer: answer.error_code == 0)


def two_phase_commit(client: DialogueClient) -> None:
    producer = Producer(client, is_initialized=False)
    producer.init(enable2_pc=True, transaction_timeout_ms=5)
    producer.note_state()
    producer.init(enable2_pc=True, transaction_timeout_ms=-5)
    producer.init(keep_prepared_txn=True)
    producer.init(enable2_pc=True, keep_prepared_txn=True)
    producer.init(transaction_timeout_ms=0)
    producer.init(transaction_timeout_ms=30_000)
    producer.note_state()


def timeouts(client: DialogueClient) -> None:
    """Transactions that exceed their timeout. Times differ and are left out of the transcript."""
    producer = Producer(client, is_initialized=False)
    producer.initialize(timeout_ms=100)
    topic = client.create("t")
    producer.open({topic: [0]})
    has_ended = DescribeTransactionsRequest(transactional_ids=[producer.transactional_id])
    client.request_until(has_ended, lambda a: a.transaction_states[0].transaction_state == "CompleteAbort", 0)
    producer.note_state()
    for version in (1, 4, client.version):
        producer.end(committed=True, version=version)
        producer.end(committed=False, version=version)
    producer.add({topic: [0]})
    producer.init(4, producer_id=producer.id, producer_epoch=producer.epoch)
    producer.initialize()
    producer.note_state()


def epochs_that_run_out(client: DialogueClient) -> None:
    """Transactional ids whose producer epochs are close to the maximum (see `with_old_epochs`)."""
    until_there_are_ids(client)
    fresh = [Producer(client, word, is_initialized=False) for word in OLD_IDS]
    for producer in fresh:
        producer.note_state()
    anonymous, named, ending, aborting, fenced, retried = fresh
    topic = client.create("t")
    anonymous.init()
    anonymous.init()
    anonymous.note_state()
    own = {"producer_id": OLD_PRODUCER_ID + 1, "producer_epoch": MAX_EPOCH - 1}
    named.init(**own)
    named.note_state()
    named.init(**own)
    named.init(producer_id=OLD_PRODUCER_ID + 1, producer_epoch=MAX_EPOCH - 2)
    for at, producer, committed in ((2, ending, True), (3, aborting, False)):
        producer.id, producer.epoch = OLD_PRODUCER_ID + at, MAX_EPOCH - 1
        producer.open({topic: [0]})
        before = {"producer_id": producer.id, "producer_epoch": producer.epoch}
        producer.end(committed=committed, version=5)
        producer.note_state()
        for again in (committed, not committed):
            producer.end(committed=again, version=5, **before)
            producer.end(committed=again, version=4, **before)
        producer.open({topic: [0]})
        producer.note_state()
    fenced.id, fenced.epoch = OLD_PRODUCER_ID + 4, MAX_EPOCH - 1
    fenced.open({topic: [0]})
    fenced.init()
    fenced.note_state()
    fenced.init()
    fenced.note_state()
    retried.id, retried.epoch = OLD_PRODUCER_ID + 5, MAX_EPOCH - 1
    retried.init(producer_id=retried.id, producer_epoch=retried.epoch - 1)
    retried.init(producer_id=retried.id, producer_epoch=retried.epoch + 1)


OLD_IDS: Final = ("anonymous", "named", "ending", "aborting", "fenced", "retried")
OLD_PRODUCER_ID: Final = 900_000


def with_old_epochs(client: DialogueClient) -> None:
    """Writes transactional ids with producer epochs close to the maximum; they take effect at the next load."""
    client.connection.client_id = ADMIN_CLIENT
    for at, word in enumerate(OLD_IDS):
        key = TransactionLogKey(transactional_id=client.topic(word))
        value = TransactionLogValue(
            producer_id=OLD_PRODUCER_ID + at,
            producer_epoch=MAX_EPOCH - (1 if word != "anonymous" else 2),
            transaction_timeout_ms=LONG_MS,
            transaction_partitions=None,
            transaction_start_timestamp_ms=-1,
            transaction_last_update_timestamp_ms=1_900_000_000_000,
        )
        _write(client, key, value)


def _write(client: DialogueClient, key: TransactionLogKey, value: TransactionLogValue) -> None:
    record = CoordinatorRecord(key, value, 1)
    key_bytes, value_bytes = SERDE.encode(record)
    partition = partition_for(key.transactional_id, PARTITIONS)
    data = ProduceRequest.PartitionProduceData(index=partition, records=batch(value_bytes, key=key_bytes))
    topic = ProduceRequest.TopicProduceData(name=TRANSACTION_STATE, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
    client.request(request, 12, noting=lambda answer: answer.responses[0].partition_responses[0].error_code)


def at_level(level: int) -> Play:
    def lower(client: DialogueClient) -> None:
        key = UpdateFeaturesRequest.FeatureUpdateKey(
            feature="transaction.version", max_version_level=level, upgrade_type=SAFE_DOWNGRADE
        )
        client.request(UpdateFeaturesRequest(timeout_ms=10_000, feature_updates=[key]), 2)

    return lower


EVERYTHING: Final[tuple[tuple[Play, tuple[int, ...]], ...]] = (
    (transactions.successive_producers, (0, 5)),
    (transactions.a_producer_takes_over_an_open_transaction, (3, 5)),
    (transactions.another_epoch_for_the_same_producer, (5,)),
    (transactions.another_epoch_with_a_transaction_open, (5,)),
    (transactions.partitions_are_added, (0, 3)),
    (transactions.transactions_end, (0, 4)),
    (transactions.an_end_without_a_transaction, (4,)),
    (transactions.a_repeated_end, (4,)),
    (transactions.many_transactions, (4,)),
    (timeouts, (4, 5)),
)
"""Plays for every transaction.version: under 0 Kafka cannot write the records of version 5 and keeps the id pending."""

WITH_EPOCH_BUMPS: Final[tuple[tuple[Play, tuple[int, ...]], ...]] = (
    (transactions.partitions_are_added, (5,)),
    (transactions.transactions_end, (5,)),
    (transactions.an_end_without_a_transaction, (5,)),
    (transactions.a_repeated_end, (5,)),
    (transactions.many_transactions, (5,)),
)


# ---- the log


def records_of(data_dir: Path) -> dict[int, list[tuple[bytes, bytes | None]]]:
    """All records of __transaction_state, by partition, with the times zeroed."""
    return {
        partition: list(_records(data_dir / f"{TRANSACTION_STATE}-{partition}"))
        for partition in range(PARTITIONS)
    }


def _records(directory: Path) -> Iterator[tuple[bytes, bytes | None]]:
    for segment in sorted(directory.glob("*.log")):
        for each in batches(segment.read_bytes()):
            for record in each.records():
                key, value = _bytes(record.key), _bytes(record.value)
                assert key is not None
                yield key, _without_times(key, value)


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


def _without_times(key: bytes, value: bytes | None) -> bytes | None:
    read = SERDE.decode(key, value)
    assert SERDE.encode(read) == (key, value)
    if isinstance(read.value, TransactionLogValue):
        for name in ("transaction_last_update_timestamp_ms", "transaction_start_timestamp_ms"):
            if getattr(read.value, name) > 0:
                setattr(read.value, name, 0)
    return SERDE.encode(read)[1]


def test_same_requests_write_the_same_transaction_records(sides: Sides) -> None:
    sides.start()
    sides.both("before", before_there_is_a_coordinator)
    sides.both("pc", two_phase_commit, TWO_PHASE_COMMIT)
    hold(sides, "2", EVERYTHING + WITH_EPOCH_BUMPS)
    sides.both("old", with_old_epochs)
    sides.stop()
    sides.start()
    sides.both("old", epochs_that_run_out)
    sides.both("lower", at_level(1))
    hold(sides, "1", EVERYTHING + WITH_EPOCH_BUMPS)
    sides.both("lower", at_level(0))
    hold(sides, "0", EVERYTHING)
    sides.stop()
    kafka, ours = records_of(sides.kafka.data_dir), records_of(sides.barnabas.data_dir)
    assert sum(map(len, kafka.values())) > 100
    for partition in range(PARTITIONS):
        assert ours[partition] == kafka[partition]


def hold(sides: Sides, level: str, plays: tuple[tuple[Play, tuple[int, ...]], ...]) -> None:
    for play, versions in plays:
        for version in versions:
            sides.both(f"{level}-{play.__name__.replace('_', '-')}", play, version)
