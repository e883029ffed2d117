"""Writers that remember what was acknowledged, and a reader that checks every record.

Each record names its writer, its partition and its sequence among that writer's records there, and carries a CRC over
all of itself. So a reader of one partition can detect torn, missing, duplicated and reordered records by itself.
"""

from __future__ import annotations

import random
import threading
import zlib
from array import array
from collections.abc import Iterator
from struct import Struct

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

_HEAD = Struct(">IHHq")
"""CRC-32 of the rest, writer, partition, sequence."""

_NOISE = random.Random(11).randbytes(1 << 20)
_OUTSTANDING = 2000

# librdkafka reports these while the broker is down, and recovers by itself.
PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    }
)


def payload(writer: int, partition: int, sequence: int, size: int) -> bytes:
    """A value of `size` bytes beside its head."""
    start = (writer * 7919 + sequence * 104_729) % (len(_NOISE) - size)
    rest = _HEAD.pack(0, writer, partition, sequence)[4:] + _NOISE[start : start + size]
    return zlib.crc32(rest).to_bytes(4, "big") + rest


def parse(value: bytes) -> tuple[int, int, int]:
    """Returns (writer, partition, sequence). Raises AssertionError when the value is damaged."""
    assert len(value) >= _HEAD.size, f"torn: {len(value)} bytes"
    crc, writer, partition, sequence = _HEAD.unpack_from(value)
    assert zlib.crc32(memoryview(value)[4:]) == crc, (
        f"torn: writer {writer}, partition {partition}, {sequence}"
    )
    return writer, partition, sequence


class CrashProofWriter(threading.Thread):
    """One idempotent producer that writes through any number of crashes until `finish`."""

    def __init__(self, name: str, bootstrap: str, codec: str, **config: str | float) -> None:
        """`config`: further librdkafka settings, with underscores for dots."""
        super().__init__(name=name, daemon=True)
        self.failures: list[str] = []
        self._stop_asked = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 2,
                "queue.buffering.max.messages": _OUTSTANDING,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 2,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )

    def write_some(self) -> None:
        """Hands a few records to the producer and polls it; subclasses implement it."""
        raise NotImplementedError

    def run(self) -> None:
        """Writes until stopped, then flushes."""
        while not self._stop_asked.is_set() and not self.failures:
            self.write_some()
        if left := self._producer.flush(60):
            self.failures.append(f"{left} records were not acknowledged within a minute")

    def finish(self) -> None:
        """Stops writing, waits for outstanding records, and fails if any of them failed."""
        self._stop_asked.set()
        self.join(90)
        assert not self.is_alive(), f"{self.name} did not come to an end"
        assert not self.failures, f"{self.name}: {self.failures[:3]}"


class Writer(CrashProofWriter):
    """Writes to all partitions of a topic."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, number: int, codec: str) -> None:
        super().__init__(f"writer {number}", bootstrap, codec)
        self.number = number
        self.acknowledged = [array("q") for _ in range(partitions)]
        """Per partition: the offset that the acknowledgement of each sequence named."""
        self.sent = [0] * partitions
        self._topic_name = topic
        self._sizes = random.Random(number)

    @property
    def count(self) -> int:
        """How many records were acknowledged so far."""
        return sum(map(len, self.acknowledged))

    def write_some(self) -> None:
        for partition in range(len(self.sent)):
            self._send(partition)
        self._producer.poll(0)

    def _send(self, partition: int) -> None:
        sequence = self.sent[partition]
        big = self._sizes.random() < 0.002
        value = payload(self.number, partition, sequence, self._sizes.randrange(100_000 if big else 500))
        while not self._stop_asked.is_set():
            try:
                self._producer.produce(
                    self._topic_name, value, partition=partition, on_delivery=self._delivered
                )
            except BufferError:
                self._producer.poll(0.05)
            else:
                self.sent[partition] += 1
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failures.append(str(error))
            return
        value, offset = message.value(), message.offset()
        assert value is not None
        assert offset is not None
        _, partition, sequence = parse(value)
        if sequence != len(self.acknowledged[partition]):
            self.failures.append(f"partition {partition}: {sequence} acknowledged out of order")
        self.acknowledged[partition].append(offset)


class Account:
    """The result of one reading of the topic: next offset by partition, offsets by writer and partition."""

    def __init__(self, writers: int, partitions: int) -> None:
        self.found = [[array("q") for _ in range(partitions)] for _ in range(writers)]
        self.next_offset = [0] * partitions

    def take(self, message: Message) -> None:
        """Raises AssertionError when the record is torn, or not the next one of its writer and partition."""
        value, partition, offset = message.value(), message.partition(), message.offset()
        assert value is not None
        assert partition is not None
        assert offset == self.next_offset[partition], f"offset {offset}, not {self.next_offset[partition]}"
        self.next_offset[partition] += 1
        writer, written_to, sequence = parse(value)
        assert written_to == partition
        offsets = self.found[writer][partition]
        assert sequence == len(offsets), (
            f"writer {writer}, partition {partition}: {sequence} at offset {offset} where {len(offsets)} comes next"
        )
        offsets.append(offset)

    def check(self, writers: list[Writer]) -> None:
        """Every acknowledged record is present once, at the acknowledged offset; no other record is present."""
        for writer in writers:
            for partition, acknowledged in enumerate(writer.acknowledged):
                found = self.found[writer.number][partition]
                assert len(found) == writer.sent[partition], (writer.name, partition, len(found), writer.sent)
                assert found == acknowledged, (
                    f"{writer.name}, partition {partition}: other offsets than acknowledged"
                )


class Reader(threading.Thread):
    """Follows the topic through all crashes and adds each record to its account."""

    def __init__(self, bootstrap: str, topic: str, account: Account) -> None:
        super().__init__(name="reader", daemon=True)
        self.account = account
        self.failure: BaseException | None = None
        self._servers = bootstrap
        self._topic_name = topic
        self._stop_asked = threading.Event()

    def run(self) -> None:
        """Reads until stopped, or until a check fails."""
        partitions = range(len(self.account.next_offset))
        try:
            for message in read(self._servers, self._topic_name, partitions, self._stop_asked):
                self.account.take(message)
        except (AssertionError, KafkaException) as error:
            self.failure = error

    def finish(self) -> None:
        """Stops reading; fails if any check failed."""
        self._stop_asked.set()
        self.join(30)
        if self.failure is not None:
            raise self.failure


def read(bootstrap: str, topic: str, partitions: range, stop: threading.Event) -> Iterator[Message]:
    """Yields every record from the beginning. Raises KafkaException when a position is out of range (a shrunk log)."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 2,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in partitions])
        while not stop.is_set():
            for message in consumer.consume(1000, 0.2):
                error = message.error()
                if error is None:
                    yield message
                elif error.code() not in PASSING:
                    raise KafkaException(error)
    finally:
        consumer.close()
