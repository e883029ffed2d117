"""Clients that write in transactions through any number of crashes, and record how each transaction ended.

Each record names its writer, its transaction, its number in it and the number of records in all. So a reader can
detect whether a transaction is there whole, in part, twice or not at all.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from struct import Struct
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Consumed

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.transactions import EndTxnRequest, InitProducerIdRequest
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.schema import Message
from tests.conformance.broker_connection import BrokerConnection, ClosedError

PAYLOAD: Final = Struct(">IIHH")
"""Writer, transaction, number of the record, number of records."""

CALL_LIMIT_S: Final = 60.0
TRANSACTION: Final = 1
FIND, INIT, PRODUCE, END = 4, 5, 12, 5
"""Versions in which each transaction has its own epoch, and produces add partitions (KIP-890)."""

PASSING: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


class Outcome(Enum):
    """The outcome of a transaction, as far as its writer knows it."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"  # whole or not at all


class TransactorError(Exception):
    """The broker rejected the transaction for good."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class Transactor(threading.Thread):
    """Writes one transaction after the other until it is stopped."""

    def __init__(self, number: int, bootstrap: str, topic: str, partitions: int, timeout_ms: int) -> None:
        super().__init__(name=f"transactor {number}", daemon=True)
        self.number = number
        self.transactional_id = f"writer-{number}"
        self.outcomes: list[tuple[Outcome, int]] = []
        """The outcome and the number of records of each transaction."""
        self.failure: BaseException | None = None
        self.bootstrap = bootstrap
        self.topic = topic
        self.partitions = partitions
        self.timeout_ms = timeout_ms
        self.dice = random.Random(number)
        self.stop_asked = threading.Event()

    @property
    def count(self) -> int:
        """Transactions known to be committed."""
        return sum(outcome is Outcome.COMMITTED for outcome, _ in list(self.outcomes))

    def run(self) -> None:
        try:
            while not self.stop_asked.is_set():
                count = self.dice.randrange(1, 30)
                outcome = self.transact(len(self.outcomes), count, commit=self.dice.random() < 0.7)
                self.outcomes.append((outcome, count))
            self.close()
        except BaseException as error:  # raised by finish()
            self.failure = error

    def transact(self, transaction: int, count: int, *, commit: bool) -> Outcome:
        """One transaction of `count` records."""
        raise NotImplementedError

    def close(self) -> None:
        """Releases its resources."""

    def payload(self, transaction: int, at: int, count: int) -> bytes:
        return PAYLOAD.pack(self.number, transaction, at, count)

    def finish(self) -> None:
        self.stop_asked.set()
        self.join(120)
        assert not self.is_alive(), f"{self.name} did not come to an end"
        if self.failure is not None:
            raise self.failure


def settings_of_clients(bootstrap: str) -> dict[str, Any]:
    """librdkafka settings for a quick recovery after a crash."""
    return {
        "bootstrap.servers": bootstrap,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        # Else librdkafka forgets its brokers when all are down, and may wait for one of them for ever.
        "metadata.recovery.strategy": "none",
        "log_level": 0,
    }


class LibrdkafkaTransactor(Transactor):
    """Writes with librdkafka, whose transactions are those from before KIP-890's second part.

    When librdkafka aborts what may have been written before a crash, it uses the same sequence numbers again, in the
    same epoch: the broker takes the next records for those that it has, and acknowledges them. So a transaction is
    aborted only where all of it was acknowledged; otherwise the producer is abandoned, and the next one continues in a
    new epoch.
    """

    _producer: Producer | None = None

    def transact(self, transaction: int, count: int, *, commit: bool) -> Outcome:
        producer = self._ready()
        committing = False
        try:
            producer.begin_transaction()
            for at in range(count):
                partition = self.dice.randrange(self.partitions)
                producer.produce(self.topic, self.payload(transaction, at, count), partition=partition)
                if self.dice.random() < 0.3:
                    producer.poll(0.002)
            committing = commit
            if commit:
                _retry(producer.commit_transaction)
                return Outcome.COMMITTED
            abort(producer)
        except KafkaException as error:
            self._producer = None  # the next one fences this one, and learns the outcome
            is_undecided = committing and not _of(error).txn_requires_abort()
            return Outcome.UNKNOWN if is_undecided else Outcome.ABORTED
        return Outcome.ABORTED

    def _ready(self) -> Producer:
        if self._producer is None:
            self._producer = new_transactional_producer(
                self.bootstrap, self.transactional_id, self.timeout_ms
            )
        return self._producer


def new_transactional_producer(bootstrap: str, transactional_id: str, timeout_ms: int) -> Producer:
    """Returns an initialized producer; the previous one with the id is fenced."""
    deadline = time.monotonic() + CALL_LIMIT_S
    while True:
        producer = Producer(
            {
                **settings_of_clients(bootstrap),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "linger.ms": 2,
            }
        )
        try:
            _retry(producer.init_transactions)
        except KafkaException:
            assert time.monotonic() < deadline
        else:
            return producer


def abort(producer: Producer) -> None:
    """Aborts a transaction of which everything was acknowledged. Raises KafkaException; then the producer is of no use.

    See LibrdkafkaTransactor.
    """
    if producer.flush(CALL_LIMIT_S):
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "not acknowledged", txn_requires_abort=True))
    _retry(producer.abort_transaction)


def _retry(call: Callable[[float], object]) -> None:
    """Calls again while the error is retriable."""
    deadline = time.monotonic() + CALL_LIMIT_S
    while True:
        try:
            call(5.0)
        except KafkaException as error:
            if not _of(error).retriable() or time.monotonic() > deadline:
                raise
        else:
            return


def _of(error: KafkaException) -> Any:
    return error.args[0]


class BumpingTransactor(Transactor):
    """Writes with our own codec, with an epoch for each transaction (transaction version 2)."""

    def __init__(self, number: int, bootstrap: str, topic: str, partitions: int, timeout_ms: int) -> None:
        super().__init__(number, bootstrap, topic, partitions, timeout_ms)
        host, port = bootstrap.split(":")
        self._connection = BrokerConnection(host, int(port))
        self._producer: tuple[int, int] | None = None
        self._sequences: Counter[int] = Counter()
        self._asked_twice = False

    def close(self) -> None:
        self._connection.close()

    def transact(self, transaction: int, count: int, *, commit: bool) -> Outcome:
        self._init()
        at = 0
        try:
            while at < count:
                size = min(self.dice.randrange(1, 8), count - at)
                payloads = [self.payload(transaction, number, count) for number in range(at, at + size)]
                self._write(self.dice.randrange(self.partitions), payloads)
                at += size
        except TransactorError:
            self._producer = None
            return Outcome.ABORTED  # no other end was requested
        try:
            self._end(commit=commit)
        except TransactorError:
            self._producer = None
            return Outcome.UNKNOWN if commit and self._asked_twice else Outcome.ABORTED
        return Outcome.COMMITTED if commit else Outcome.ABORTED

    def _init(self) -> None:
        if self._producer is not None:
            return
        find = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[self.transactional_id])
        self._request(find, FIND, lambda it: it.coordinators[0].error_code)
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=self.timeout_ms
        )
        answer = self._request(request, INIT, lambda it: it.error_code)
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    def _write(self, partition: int, payloads: list[bytes]) -> None:
        assert self._producer is not None
        producer_id, epoch = self._producer
        records = build_batch(
            [(None, payload, int(time.time() * 1000), ()) for payload in payloads],
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=self._sequences[partition],
            is_transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=self.topic, partition_data=[data])],
        )
        self._request(request, PRODUCE, lambda it: it.responses[0].partition_responses[0].error_code)
        self._sequences[partition] += len(payloads)

    def _end(self, *, commit: bool) -> None:
        assert self._producer is not None
        producer_id, epoch = self._producer
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            committed=commit,
        )
        answer = self._request(request, END, lambda it: it.error_code)
        self._producer = answer.producer_id, answer.producer_epoch
        self._sequences.clear()

    def _request(self, request: Message, version: int, code_of: Callable[[Any], int]) -> Any:
        """Returns the response; retries after a crash and on transient errors. Raises TransactorError."""
        deadline = time.monotonic() + CALL_LIMIT_S
        self._asked_twice = False
        while True:
            assert time.monotonic() < deadline, f"{request} does not come to an end"
            try:
                answer = self._connection.request(request, version)
            except (ClosedError, OSError):
                self._connection.close()
                self._asked_twice = True
                time.sleep(0.02)
                continue
            code = ErrorCode(code_of(answer))
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                return answer
            if code not in PASSING:
                raise TransactorError(code)
            time.sleep(0.01)


class Deserter(BumpingTransactor):
    """Begins transactions and abandons them: only the coordinator ends them."""

    def transact(self, transaction: int, count: int, *, commit: bool) -> Outcome:
        self._producer = None
        self.transactional_id = f"deserter-{self.number}-{transaction}"
        self._init()
        with suppress(TransactorError):
            self._write(self.dice.randrange(self.partitions), [self.payload(transaction, 0, count)])
        self.stop_asked.wait(self.dice.uniform(0.1, 0.5))
        return Outcome.ABORTED


class Copier(threading.Thread):
    """Copies a topic record by record: each transaction covers the input offset and the output record."""

    def __init__(self, name: str, bootstrap: str, source: str, target: str, partitions: int) -> None:
        super().__init__(name=name, daemon=True)
        self.count = 0
        self.failure: BaseException | None = None
        self._servers = bootstrap
        self._target = target
        self._partitions = [TopicPartition(source, index) for index in range(partitions)]
        self._next: dict[int, int] = {}
        """By partition the offset from which on the next record has to be."""
        self._stop_asked = threading.Event()
        self._dice = random.Random(name)

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                self._copy()
        except BaseException as error:  # raised by finish()
            self.failure = error

    def finish(self) -> None:
        self._stop_asked.set()
        self.join(120)
        assert not self.is_alive(), f"{self.name} did not come to an end"
        if self.failure is not None:
            raise self.failure

    def _copy(self) -> None:
        """Continues from the group's offset until an error: then another producer has to go on (see
        LibrdkafkaTransactor)."""
        producer = new_transactional_producer(self._servers, self.name, 10_000)
        consumer = Consumer(
            {
                **settings_of_clients(self._servers),
                "group.id": self.name,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )
        try:
            self._rewind(consumer)
            while not self._stop_asked.is_set():
                self._copy_some(consumer, producer)
        except KafkaException as error:
            if not _of(error).txn_requires_abort() and not _of(error).fatal() and not _of(error).retriable():
                raise
        finally:
            consumer.close()

    def _rewind(self, consumer: Consumer) -> None:
        """Goes on from the group's offsets, or from 0 where there is none."""
        deadline = time.monotonic() + CALL_LIMIT_S
        while (found := self._committed(consumer)) is None:
            assert time.monotonic() < deadline, f"{self.name} cannot fetch its offsets"
        for each in found:
            each.offset = max(each.offset, 0)
        self._next = {each.partition: each.offset for each in found}
        consumer.assign(found)

    def _committed(self, consumer: Consumer) -> list[TopicPartition] | None:
        try:
            found: list[TopicPartition] = consumer.committed(self._partitions, 5.0)
        except KafkaException:
            return None
        return None if any(each.error for each in found) else found

    def _copy_some(self, consumer: Consumer, producer: Producer) -> None:
        messages = [message for message in consumer.consume(200, 0.1) if self._is_record(message)]
        if not messages:
            return
        producer.begin_transaction()
        for message in messages:
            producer.produce(self._target, message.value(), partition=message.partition() or 0)
        offsets = consumer.position(self._partitions)
        metadata = consumer.consumer_group_metadata()
        _retry(
            lambda limit_s: producer.send_offsets_to_transaction(
                [it for it in offsets if it.offset >= 0], metadata, limit_s
            )
        )
        if self._dice.random() < 0.1:
            abort(producer)
            self._rewind(consumer)
            return
        _retry(producer.commit_transaction)
        self.count += len(messages)

    def _is_record(self, message: Consumed) -> bool:
        """Whether it is no error. Raises AssertionError where the consumer does not go on where it should."""
        error, partition, offset = message.error(), message.partition() or 0, message.offset()
        assert error is None or error.code() != KafkaError._AUTO_OFFSET_RESET, f"{self.name}: {error}"
        if error is not None or offset is None:
            return False
        assert offset >= self._next[partition], (
            f"{self.name} reads {offset} of {partition} after {self._next}"
        )
        self._next[partition] = offset + 1
        return True
