"""Apache Kafka is killed while it writes, rolls and compacts; ours takes over, is killed too, and Kafka resumes."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import KafkaError, Message, Producer

from tests.conformance.handover.kafka_side import PARTITIONS, Written, config_of, kafka_in, quiet_producer
from tests.conformance.handover.our_side import compact, fill, log_of, open_ours
from tests.conformance.handover.tools import findings
from tests.conformance.handover.views import Seen, our_view, views

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(900)]

TOPICS = ("codec-none", "broker-time", "compacted")
ACKNOWLEDGED = 6000
COMPACTED = {"compacted", "compacted-and-deleted", "ours-compacted", "legacy-compacted"}

KeyAndValue = tuple[bytes | None, bytes | None]


class Writers:
    """Producers that write continuously, and the records that the broker has acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[tuple[str, int], KeyAndValue] = {}
        self.committed: set[bytes] = set()
        self._plain = quiet_producer(bootstrap, batch_num_messages=20)
        self._transactional = quiet_producer(bootstrap, transactional_id="killed", batch_num_messages=10)
        self._transactional.init_transactions(30)
        self._random = Random(9)

    def write(self, at_least: int) -> None:
        """Writes until `at_least` records are acknowledged; leaves records in flight and a transaction open."""
        for number in count():
            for topic in TOPICS:
                self._send(self._plain, topic, b"key-%d" % (number * 37 % 500))
            self._plain.poll(0.001)
            if number % 200 == 0:
                self._transact(number)
            if len(self.acknowledged) >= at_least:
                self._transactional.begin_transaction()
                self._send(self._transactional, "transactions", b"open")
                self._transactional.flush(30)
                return

    def _transact(self, number: int) -> None:
        self._transactional.begin_transaction()
        value = b"committed %d" % number
        self._transactional.produce("transactions", value, b"k", 0)
        if number % 400:
            self._transactional.abort_transaction(30)
        else:
            self._transactional.commit_transaction(30)
            self.committed.add(value)

    def _send(self, producer: Producer, topic: str, key: bytes) -> None:
        value = self._random.randbytes(600)
        producer.produce(topic, value, key, 0, on_delivery=self._delivered)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        topic, offset = message.topic(), message.offset()
        if error is None and topic is not None and offset is not None:
            self.acknowledged[topic, offset] = (message.key(), message.value())

    def purge(self) -> None:
        """Drops the queued records after the broker was killed."""
        for producer in (self._plain, self._transactional):
            producer.purge()
            producer.flush(1)


def test_kills_of_kafka_then_ours_lose_no_acknowledged_record(written: Written, tmp_path: Path) -> None:
    kafka = kafka_in(tmp_path / "killed", written.version, written.stopped.directory)
    with kafka:
        writers = Writers(kafka.bootstrap)
        writers.write(ACKNOWLEDGED)
        kafka.kill()
        writers.purge()
    assert findings(kafka.data_dir) == []
    data = Path(shutil.copytree(kafka.data_dir, tmp_path / "data"))
    manager = open_ours(data, config_of)
    for topic in (*TOPICS, "transactions"):
        acknowledged = {at: sent for (of, at), sent in writers.acknowledged.items() if of == topic}
        assert len(acknowledged) > (1000 if topic in TOPICS else 0)
        assert_all_there(topic, our_view(log_of(manager, topic)).records, acknowledged)
    view = our_view(log_of(manager, "transactions"))
    assert writers.committed <= {seen.value for seen in view.committed.values()}
    assert view.stable < view.end
    for topic in TOPICS:
        fill(log_of(manager, topic), 3, rounds=30)
    compact(manager, ["compacted"])
    manager.dirs.checkpoint_all()
    fill(log_of(manager, "codec-none"), 4, rounds=10)
    expected = {(log.topic, log.partition): our_view(log) for log in manager.all_logs()}
    manager.abandon()
    kafka = kafka_in(tmp_path / "again", written.version, data)
    with kafka:
        shown = views(kafka.bootstrap, PARTITIONS)
        for key, view in expected.items():
            if key[0] not in COMPACTED and not key[0].startswith("__"):
                assert shown[key].records == view.records, key
                assert shown[key].committed == view.committed, key
            assert (shown[key].start, shown[key].stable) == (view.start, view.stable), key
        kafka.stop()
    assert findings(kafka.data_dir) == []


def assert_all_there(topic: str, records: dict[int, Seen], acknowledged: dict[int, KeyAndValue]) -> None:
    """A record that compaction has removed must have a newer record of the same key."""
    found = {offset: (seen.key, seen.value) for offset, seen in records.items()}
    if topic not in COMPACTED:
        assert acknowledged.items() <= found.items()
        return
    newest = {key: offset for offset, (key, _) in sorted(found.items())}
    assert [offset for offset, (key, _) in acknowledged.items() if newest[key] < offset] == []
    assert [offset for offset in acknowledged.keys() & found if found[offset] != acknowledged[offset]] == []
