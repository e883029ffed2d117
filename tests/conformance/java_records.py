"""Drives JavaRecords.java, Apache Kafka's side of the record checks, and describes our batches in the same format."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from barnabas.protocol.records.batch import RecordBatch, TimestampType
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.record import Record
from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaRecords.java"
Bytes = bytes | memoryview | None


class KafkaError(Exception):
    """Kafka rejected the records; the message is the simple name of its exception."""


def word(value: object) -> str:
    """A value in the format of the Java process."""
    if value is None:
        return "-"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex() or "."
    return (
        str(value).lower()
        if isinstance(value, bool)
        else str(int(value))
        if isinstance(value, int)
        else str(value)
    )


class JavaRecords:
    """The running Java process."""

    def __init__(self) -> None:
        classpath = require_compiled(SOURCE)
        # The first compiler tier is fast enough and keeps the machine quiet.
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classpath, SOURCE.stem]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=30)

    def request(self, *words: object) -> list[str]:
        """Sends one request. Raises KafkaError when Kafka rejects the records."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(word, words)) + "\n")
        stdin.flush()
        answer = []
        while (line := stdout.readline().rstrip("\n")) != "end":
            if line.startswith("error") or not line:
                raise KafkaError(line.removeprefix("error ") or "the Java process has ended")
            answer.append(line)
        return answer

    def read(self, data: Bytes) -> list[str]:
        """Kafka's description of these batches, a line for each batch and record."""
        return self.request("read", data)

    def build(
        self,
        records: Sequence[Record],
        *,
        magic: int = 2,
        compression: CompressionType = CompressionType.NONE,
        level: int | None = None,
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
        base_offset: int = 0,
        log_append_time: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        partition_leader_epoch: int = -1,
        delete_horizon_ms: int | None = None,
    ) -> bytes:
        """The batch that Kafka's MemoryRecordsBuilder builds."""
        horizon = -1 if delete_horizon_ms is None else delete_horizon_ms
        words: list[object] = [magic, compression, level, timestamp_type, base_offset, log_append_time]
        words += [producer_id, producer_epoch, base_sequence, is_transactional, is_control]
        words += [partition_leader_epoch, horizon, len(records)]
        for record in records:
            words += [record.offset, record.timestamp, record.key, record.value, len(record.headers)]
            for name, value in record.headers:
                words += [name.encode(), value]
        return self.one("build", *words)

    def one(self, *words: object) -> bytes:
        """Sends a request and returns the bytes of its answer."""
        (answer,) = self.request(*words)
        return bytes.fromhex(answer)


def describe(data: bytes) -> list[str]:
    """Our description of these batches in the format of the Java process; checks checksums first, as that does."""
    lines: list[str] = []
    for batch in batches(data):
        batch.ensure_valid()
        records = [_describe_record(record) for record in batch.records()]
        fields: list[object] = [batch.magic, batch.base_offset, batch.last_offset, batch.next_offset]
        fields += [batch.size_in_bytes, batch.partition_leader_epoch, batch.crc, batch.compression_type]
        fields += [batch.timestamp_type, batch.max_timestamp, batch.producer_id, batch.producer_epoch]
        fields += [batch.base_sequence, batch.last_sequence, batch.is_transactional, batch.is_control]
        fields += [batch.delete_horizon_ms, batch.record_count if isinstance(batch, RecordBatch) else None]
        lines += [" ".join(("batch", *map(word, fields))), *records]
    return lines


def _describe_record(record: Record) -> str:
    def fields() -> Iterator[object]:
        yield from (record.offset, record.timestamp, record.sequence, record.key, record.value)
        for name, value in record.headers:
            yield from (name.encode(), value)

    return " ".join(("record", *map(word, fields())))
