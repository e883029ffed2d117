"""Writers that update the same keys repeatedly, and readers that check the value of each key.

Every record carries its writer and the number of the change of its key, tombstones too (in a header). So a reader of
a compacted topic can check, however much was compacted away: the last acknowledged change of each key or a later one
is present; no record is torn, duplicated, out of order, or at another offset than acknowledged.
"""

from __future__ import annotations

import random
import zlib
from collections import defaultdict
from struct import Struct
from typing import Final, NamedTuple

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from tests.faults.ledger import PASSING, CrashProofWriter

_CHANGE: Final = Struct(">IQ")
"""CRC-32 of the rest, the number of the change."""

_NOISE: Final = random.Random(12).randbytes(1 << 16)
_HEADER: Final = "change"
_CHANGES_AT_A_TIME: Final = 50
_PAUSE_S: Final = 0.01
"""Makes the log always have something to compact, with time to do so."""

_BATCH_BYTES: Final = 16_384
"""Small enough for small segments; a batch holds a key more than once, but not all keys."""
TOMBSTONE_SHARE: Final = 0.05

Place = tuple[str, int, bytes]
"""Topic, partition, key."""


def value_of(change: int, size: int) -> bytes:
    start = change * 7919 % (len(_NOISE) - size)
    rest = change.to_bytes(8, "big") + _NOISE[start : start + size]
    return zlib.crc32(rest).to_bytes(4, "big") + rest


class KeyHistory:
    """The changes that one writer made to one key, numbered from 0."""

    __slots__ = ("acknowledged", "offsets", "sent", "tombstones")

    def __init__(self) -> None:
        self.sent = 0
        self.acknowledged = -1
        self.tombstones: set[int] = set()
        self.offsets: dict[int, int] = {}


class KeyedWriter(CrashProofWriter):
    """Writes to some keys of several topics."""

    def __init__(self, bootstrap: str, number: int, codec: str, places: list[Place]) -> None:
        super().__init__(f"keyed writer {number}", bootstrap, codec, batch_size=_BATCH_BYTES)
        self.histories = {place: KeyHistory() for place in places}
        self.count = 0
        self._places = places
        self._dice = random.Random(number)

    def write_some(self) -> None:
        for _ in range(_CHANGES_AT_A_TIME):
            self._change(self._dice.choice(self._places))
        self._producer.poll(_PAUSE_S)

    def _change(self, place: Place) -> None:
        topic, partition, key = place
        history = self.histories[place]
        change = history.sent
        is_tombstone = self._dice.random() < TOMBSTONE_SHARE
        value = None if is_tombstone else value_of(change, self._dice.randrange(600))
        if is_tombstone:
            history.tombstones.add(change)
        history.sent += 1  # before any reader can see it

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._delivered(history, change, error, message)

        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition=partition,
                    headers=[(_HEADER, change.to_bytes(8, "big"))],
                    on_delivery=delivered,
                )
            except BufferError:
                self._producer.poll(0.05)
            else:
                return

    def _delivered(
        self, history: KeyHistory, change: int, error: KafkaError | None, message: Message
    ) -> None:
        offset = message.offset()
        if error is not None or offset is None:
            self.failures.append(str(error))
            return
        history.offsets[change] = offset
        history.acknowledged = max(history.acknowledged, change)
        self.count += 1


class Found(NamedTuple):
    """One record of a key."""

    offset: int
    change: int


class KeyedReading:
    """The result of one reading of everything, compared with what was acknowledged when it began."""

    def __init__(self, writers: list[KeyedWriter]) -> None:
        self._histories = {place: it for writer in writers for place, it in writer.histories.items()}
        self._acknowledged = {place: history.acknowledged for place, history in self._histories.items()}
        self._found: dict[Place, list[Found]] = defaultdict(list)
        self._last_offset: dict[tuple[str, int], int] = {}
        self.records = 0

    def take(self, message: Message) -> None:
        """Raises AssertionError when the record is torn or out of place."""
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        key, value = message.key(), message.value()
        assert topic is not None and partition is not None and offset is not None  # noqa: PT018
        assert isinstance(key, bytes)
        assert offset > self._last_offset.get((topic, partition), -1), f"{topic}-{partition}: {offset} twice"
        self._last_offset[topic, partition] = offset
        headers = dict(message.headers() or [])
        change = int.from_bytes(headers[_HEADER], "big")  # type: ignore[arg-type]
        if value is not None:
            assert zlib.crc32(memoryview(value)[4:]) == _CHANGE.unpack_from(value)[0], f"torn: {key!r}"
            assert _CHANGE.unpack_from(value)[1] == change
        history = self._histories[topic, partition, key]
        assert (value is None) == (change in history.tombstones)
        acknowledged_at = history.offsets.get(change)
        assert acknowledged_at in (None, offset), f"{key!r} change {change}: {offset}, not {acknowledged_at}"
        self._found[topic, partition, key].append(Found(offset, change))
        self.records += 1

    def check(self) -> None:
        """Every key holds its last acknowledged change, or a later one; a later tombstone may have been removed."""
        for place, acknowledged in self._acknowledged.items():
            found = self._found.get(place, [])
            changes = [it.change for it in found]
            assert changes == sorted(set(changes)), f"{place}: changes out of order or doubled: {changes}"
            if acknowledged < 0 or (changes and changes[-1] >= acknowledged):
                continue
            history = self._histories[place]
            is_deleted = any(acknowledged <= tombstone for tombstone in history.tombstones)
            assert is_deleted, f"{place}: change {acknowledged} is lost; found are {changes[-3:]}"

    def check_that_all_is_over(self) -> None:
        """As check(), after all writes have ended: no change beyond the last acknowledged one is present either."""
        self.check()
        for place, history in self._histories.items():
            assert history.acknowledged == history.sent - 1, place
            for it in self._found.get(place, [])[-1:]:
                assert it.change <= history.acknowledged


def read_all(bootstrap: str, writers: list[KeyedWriter], topics: list[str], partitions: int) -> KeyedReading:
    """Reads every partition from the beginning to its current end."""
    reading = KeyedReading(writers)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "enable.partition.eof": True,
            "log_level": 2,
        }
    )
    waiting = {(topic, partition) for topic in topics for partition in range(partitions)}
    try:
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in sorted(waiting)])
        idle = 0
        while waiting:
            messages = consumer.consume(1000, 0.2)
            idle = 0 if messages else idle + 1
            assert idle < 300, f"no end of {waiting}"
            for message in messages:
                error = message.error()
                if error is None:
                    reading.take(message)
                elif error.code() == KafkaError._PARTITION_EOF:
                    waiting.discard((str(message.topic()), int(message.partition() or 0)))
                elif error.code() not in PASSING:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return reading
