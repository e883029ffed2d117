"""Damaged batches with a right checksum, produced to both brokers: Barnabas rejects what Apache Kafka rejects.

Barnabas may reject more (bytes after a compressed stream, offset deltas that are not the index), with another error
code; it must never accept a batch that Kafka rejects, and never close the connection where Kafka answers.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from barnabas.protocol.records.batch import build_batch
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.record import Record
from tests.conformance.kafka_jars import require_classpath
from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.interop.conftest import wait_for_leaders
from tests.interop.workload import Workload
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.raw import PRODUCE, RawConnection, frame, header_v1, string

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

SEED = 2026
CASES = 2500
TOPIC = "poisoned"
PRODUCE_VERSION = 8
"""The last version before flexible ones that accepts every codec."""

NO_ERROR = 0
UNKNOWN_SERVER_ERROR = -1
HEADER = struct.Struct(">qiibIhiqqqhii")
LENGTH, MAGIC, CRC, ATTRIBUTES = 1, 3, 4, 5
FIELDS = {"q": 64, "i": 32, "h": 16, "b": 8}
FORMATS = HEADER.format.lstrip(">").replace("I", "i")


class Damage:
    """Builds batches and damages them, at random from a seed."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._now_ms = Workload(1).started_ms

    def batch(self) -> bytes:
        """An undamaged batch."""
        dice = self._dice
        records = [
            Record(
                dice.choice([None, b"", b"k" * dice.randrange(1, 9)]),
                dice.choice([None, b"", b"v" * dice.randrange(1, 40)]),
                self._now_ms + number,
                [("h", dice.choice([None, b"x"]))] * dice.randrange(3),
            )
            for number in range(dice.randrange(1, 6))
        ]
        return build_batch(records, compression=CompressionType(dice.randrange(5)))

    def cases(self, count: int) -> Iterator[bytes]:
        """Damaged and, now and then, undamaged batches."""
        damages = (self._fields, self._fields, self._payload, self._size, self._pair, bytes)
        for _ in range(count):
            yield self._dice.choice(damages)(self.batch())

    def _fields(self, batch: bytes) -> bytes:
        """Sets one or two fields of the header to edge values."""
        dice, fields = self._dice, list(HEADER.unpack_from(batch))
        for _ in range(dice.randrange(1, 3)):
            at = dice.randrange(len(fields))
            bits = FIELDS[FORMATS[at]]
            half = 1 << (bits - 1)
            choices = [
                0,
                1,
                -1,
                -2,
                half - 1,
                -half,
                5,
                100,
                fields[at] + 1,
                fields[at] - 1,
                1 << dice.randrange(bits - 1),
            ]
            value = dice.choice(choices)
            fields[at] = value & 0xFFFFFFFF if at == CRC else (value + half) % (2 * half) - half
        damaged = HEADER.pack(*fields) + batch[HEADER.size :]
        return damaged if dice.random() < 0.1 else with_right_crc(damaged)

    def _payload(self, batch: bytes) -> bytes:
        """Changes one or two bytes of the records, compressed or not."""
        damaged = bytearray(batch)
        for _ in range(self._dice.randrange(1, 3)):
            damaged[self._dice.randrange(HEADER.size, len(batch))] = self._dice.randrange(256)
        return with_right_crc(damaged)

    def _size(self, batch: bytes) -> bytes:
        """Cuts the records short or appends noise, with a length that fits."""
        dice = self._dice
        cut = dice.random() < 0.5
        damaged = bytearray(
            batch[: dice.randrange(HEADER.size, len(batch))] if cut else batch + dice.randbytes(5)
        )
        damaged[8:12] = struct.pack(">i", len(damaged) - 12)
        return with_right_crc(damaged)

    def _pair(self, batch: bytes) -> bytes:
        """Appends a second batch where one is allowed."""
        return batch + self.batch()


def with_right_crc(batch: bytes | bytearray) -> bytes:
    """The batch with the checksum of its present content."""
    damaged = bytearray(batch)
    damaged[17:21] = struct.pack(">I", crc32c(damaged[21:]))
    return bytes(damaged)


def answers(bootstrap: str, cases: list[bytes]) -> list[int | None]:
    """Produces each batch and returns the error codes; None where the broker closed the connection."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    wait_for_leaders(admin, TOPIC, 1)
    found: list[int | None] = []
    connection = RawConnection(bootstrap)
    for case in cases:
        head = header_v1(PRODUCE, PRODUCE_VERSION, 1) + struct.pack(">hhii", -1, 1, 5000, 1) + string(TOPIC)
        connection.send(frame(head + struct.pack(">iii", 1, 0, len(case)) + case))
        try:
            answer = connection.read_frame()
        except (EOFError, ConnectionError):
            found.append(None)
            connection.close()
            connection = RawConnection(bootstrap)
        else:
            # The error code follows the correlation id, one topic with its name, one partition with its number.
            found.append(struct.unpack_from(">h", answer, 8 + len(string(TOPIC)) + 8)[0])
    connection.close()
    return found


def test_batches_that_kafka_rejects_are_rejected(tmp_path: Path) -> None:
    cases = list(Damage(SEED).cases(CASES))
    with ApacheKafka(tmp_path / "kafka", require_classpath()) as kafka:
        theirs = answers(kafka.bootstrap, cases)
    with BrokerProcess(tmp_path / "barnabas") as broker:
        ours = answers(broker.bootstrap, cases)
        assert broker.stop() == 0
        assert "Traceback" not in broker.output, broker.output[-2000:]
    accepted = [
        case.hex() for case, us, they in zip(cases, ours, theirs, strict=True) if us == NO_ERROR != they
    ]
    assert not accepted, f"{len(accepted)} batches that Kafka rejects were accepted: {accepted[:3]}"
    closed = [
        case.hex() for case, us, they in zip(cases, ours, theirs, strict=True) if us is None is not they
    ]
    assert not closed, f"{len(closed)} batches closed the connection to Barnabas only: {closed[:3]}"
    # Where decompression fails Kafka has no better code than UNKNOWN_SERVER_ERROR.
    named = [(us, they) for us, they in zip(ours, theirs, strict=True) if they != UNKNOWN_SERVER_ERROR]
    same = sum(us == they for us, they in named)
    assert same > 0.8 * len(named), f"only {same} of {len(named)} answers are the same"
    assert 0.1 * len(cases) < ours.count(NO_ERROR) < 0.6 * len(cases), "too few of either kind"
