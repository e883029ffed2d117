"""The client of a dialogue: sends requests, and notes the responses in a form that can be compared between brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Final

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.offsets import ListOffsetsResponse
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.records.batch import RecordBatch, TimestampType
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.entries import batches
from barnabas.protocol.schema import Message, Struct
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.conformance.broker_connection import BrokerConnection, ClosedError

START_MS: Final = 1_700_000_000_000
"""The first timestamp of the records that dialogues write: far enough from now to be distinguished from it."""

NO_ID: Final = b"?" * 16
"""A topic id that does not exist."""

_NOW_WITHIN_MS: Final = 3_600_000
_TEXTS: Final = frozenset({"error_message", "batch_index_error_message", "documentation"})
_MEMBERS: Final = frozenset({"member_id", "leader"})
_OURS: Final = frozenset({"host", "port", "cluster_id"})


class DialogueClient:
    """Sends the requests of one dialogue in one version to one broker, and notes the responses in `transcript`."""

    def __init__(self, connection: BrokerConnection, version: int, prefix: str) -> None:
        self.connection = connection
        self.version = version
        self.transcript: list[object] = []
        self.numbers = count(1)
        """Numbers for the client ids of group members."""
        self._prefix = prefix
        self._ids: dict[Uuid, str] = {ZERO_UUID: "zero", NO_ID: "no id"}
        self._names: dict[str, dict[int | str, str]] = {
            "session": {0: "none"},
            "producer": {-1: "none"},
            "member": {"": "none"},
        }

    def topic(self, word: str) -> str:
        """A topic name that no other dialogue uses."""
        return f"{self._prefix}-{word}"

    # ---- requests

    def request(
        self, request: Message, version: int | None = None, *, noting: Callable[[Any], object] | None = None
    ) -> Any:
        """Sends a request, notes the response (or `noting` of it) and returns it; None if the connection was closed."""
        try:
            answer = self.connection.request(request, self.version if version is None else version)
        except ClosedError:
            self.transcript.append("closed")
            return None
        self.note(answer if noting is None else noting(answer))
        return answer

    def note(self, value: object) -> None:
        self.transcript.append(self._plain("", value))

    def request_until(
        self, request: Message, is_good: Callable[[Any], bool], version: int | None = None
    ) -> Any:
        """Repeats a request until the response is good and returns that; notes nothing."""
        deadline = time.monotonic() + 20
        while True:
            answer = self.connection.request(request, self.version if version is None else version)
            if is_good(answer):
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.02)

    # ---- preparation; notes nothing

    def create(self, word: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Creates a topic and waits until it can be written to; returns its name."""
        name = self.topic(word)
        topic = CreateTopicsRequest.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[
                CreateTopicsRequest.CreatableTopicConfig(name=key, value=value)
                for key, value in (configs or {}).items()
            ],
        )
        created = self.connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        assert isinstance(created, CreateTopicsResponse)
        assert created.topics[0].error_code == 0, created
        self._ids[created.topics[0].topic_id] = f"id of {name}"
        from tests.conformance.dialogues.words import list_offsets

        for index in range(partitions):
            self.request_until(
                list_offsets(name, index), lambda a: a.topics[0].partitions[0].error_code == 0, 7
            )
        return name

    def id_of(self, name: str) -> Uuid:
        """The id of a topic that create() made."""
        return next(topic_id for topic_id, known in self._ids.items() if known == f"id of {name}")

    def has_created(self, name: str) -> bool:
        """Whether create() made a topic of that name."""
        return f"id of {name}" in self._ids.values()

    def known_as(self, topic_id: Uuid) -> str:
        """The name of an id in transcripts: the same for every broker, so that entries can be sorted by it."""
        return self._ids.setdefault(topic_id, f"id {len(self._ids)}")

    def write(self, name: str, *payloads: bytes, partition: int = 0) -> list[int]:
        """Appends each payload with a request of its own; returns their base offsets."""
        offsets = []
        for payload in payloads:
            data = ProduceRequest.PartitionProduceData(index=partition, records=payload)
            topic = ProduceRequest.TopicProduceData(name=name, partition_data=[data])
            request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic])
            answer = self.connection.request(request, 12)
            assert isinstance(answer, ProduceResponse)
            result = answer.responses[0].partition_responses[0]
            assert result.error_code == 0, result
            offsets.append(result.base_offset)
        return offsets

    # ---- noting

    def _plain(self, name: str, value: Any) -> object:
        """`value` of the field `name`, with placeholders for values that differ between any two brokers."""
        if isinstance(value, Struct):
            plain = {
                field.name: self._plain(field.name, getattr(value, field.name)) for field in value.fields
            }
            if isinstance(value, FetchResponse):
                plain["responses"] = _in_order(plain["responses"], "topic", "partitions", "partition_index")
            if isinstance(value, ProduceResponse):
                plain["responses"] = _in_order(plain["responses"], "name", "partition_responses", "index")
            if isinstance(value, ListOffsetsResponse):
                plain["topics"] = _in_order(plain["topics"], "name", "partitions", "partition_index")
            if plain.get("error_code"):
                plain.pop("error_message", None)  # each broker has its own error messages, or none
            return {key: shown for key, shown in plain.items() if shown is not None}
        if isinstance(value, dict):
            return {key: self._plain(str(key), item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._plain(name, item) for item in value]
        if name == "records":
            data = bytes(value or b"")
            return [len(data), *(_plain_batch(batch) for batch in batches(data))]
        return self._plain_leaf(name, value)

    def _plain_leaf(self, name: str, value: Any) -> object:
        if name in _TEXTS:
            return "a text" if value else None
        if name in _OURS and value not in ("", -1, None):
            return name
        if isinstance(value, bytes) and len(value) == 16:
            return self._ids.setdefault(value, f"id {len(self._ids)}")
        if name == "session_id":
            return self._nth("session", value)
        if name == "producer_id":
            return self._nth("producer", value)
        if name in _MEMBERS and isinstance(value, str):
            return self._nth("member", value)
        if isinstance(value, int) and abs(value - time.time() * 1000) < _NOW_WITHIN_MS:
            return "now"
        return value

    def _nth(self, kind: str, value: int | str) -> str:
        names = self._names[kind]
        return names.setdefault(value, f"{kind} {len(names)}")


def _in_order(topics: Any, name: str, partitions: str, index: str) -> object:
    """Responses of partitions, each topic once, sorted: the order depends on the broker's hash tables."""
    merged: dict[tuple[str, str], list[Any]] = {}
    for topic in topics:
        merged.setdefault((topic[name], topic.get("topic_id", "")), []).extend(topic[partitions])
    return [
        (*key, sorted(answers, key=lambda answer: answer[index])) for key, answers in sorted(merged.items())
    ]


def _plain_batch(batch: object) -> object:
    assert isinstance(batch, RecordBatch)
    end = batch.position + batch.size_in_bytes
    if batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return (batch.base_offset, batch.record_count, "log append time")
    return bytes(memoryview(batch.buffer)[batch.position : end]).hex()


def batch(*values: bytes | None, key: bytes | None = None, timestamp: int = START_MS, **fields: Any) -> bytes:
    """A record batch as a producer sends it: one record for each of `values`, all with `key`."""
    return build_batch(
        [(key, value, timestamp + at, ()) for at, value in enumerate(values or (b"x",))], **fields
    )
