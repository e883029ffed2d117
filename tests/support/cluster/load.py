"""Stock clients that work while a test does things to a cluster, and write down what they did and saw.

    history = History()
    with load(Sending(history, bootstrap, "p1", partitions), Reading(history, bootstrap, "c1", partitions)):
        ... kill, cut, move ...
    final_read(history, bootstrap, partitions)
    assert check(history) == []

Each client is a thread. A client outlives what happens to brokers: it tries again until the test ends it. An exception
that it did not expect is raised in `finish`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from random import Random
from typing import Any, Final

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from tests.support.cluster.history import (
    Assigned,
    At,
    FinalRead,
    History,
    OffsetCommitted,
    Outcome,
    Polled,
    Sent,
    TransactionEnded,
    value_of,
)
from tests.support.cluster.waiting import LIMIT_S, NeverHappenedError

QUIET: Final[Mapping[str, object]] = {
    "log_level": 0,
    "error_cb": lambda error: None,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 300,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 300,
    "socket.timeout.ms": 4_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "topic.metadata.refresh.interval.ms": 2_000,
    "allow.auto.create.topics": False,
}
"""Quick to find out that a broker is gone; the defaults wait for a minute."""

DELIVERY_S: Final = 120
"""How long a producer tries: longer than a test leaves a partition without a leader."""
PER_SECOND: Final = 400
"""Records of one producer; the processors belong to the brokers."""
FINISH_LIMIT_S: Final = 90.0
FENCED: Final = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        KafkaError.STALE_MEMBER_EPOCH,
        KafkaError.FENCED_MEMBER_EPOCH,
        KafkaError._NO_OFFSET,
    }
)
"""Errors of a commit that surely has no effect."""


class Client:
    """A thread that does `step` until it is ended."""

    def __init__(self, history: History, name: str) -> None:
        self.history = history
        self.name = name
        self.error: BaseException | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def end(self) -> None:
        """Asks it to end."""
        self._ending.set()

    def finish(self) -> None:
        """Waits for its end; raises what ended it early."""
        self._thread.join(FINISH_LIMIT_S)
        if self.error is not None:
            raise self.error
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.error = error

    def work(self) -> None:
        """What the thread does until `ending`."""
        raise NotImplementedError

    @property
    def ending(self) -> bool:
        """Whether it was asked to end."""
        return self._ending.is_set()

    def pace(self, per_second: float) -> None:
        """Waits between two steps."""
        self._ending.wait(1 / per_second)


@contextmanager
def load(*clients: Client) -> Iterator[None]:
    """Runs clients during a block, and waits for the ends of all."""
    for client in clients:
        client.start()
    try:
        yield
    finally:
        for client in clients:
            client.end()
    for client in clients:
        client.finish()


class Sending(Client):
    """A producer that sends to some partitions in turn.

    With `acks` "1" it may lose records; `is_durable` False expects losses with "all", too. `is_idempotent` needs "all";
    it has one request in flight: where the second of two reaches a new leader before the first, librdkafka takes a new
    producer epoch for all partitions, and sends again what may be in their logs already.
    """

    def __init__(
        self,
        history: History,
        bootstrap: str,
        name: str,
        partitions: Sequence[At],
        *,
        acks: str = "all",
        is_idempotent: bool | None = None,
        is_durable: bool | None = None,
        per_second: int = PER_SECOND,
        padding: int = 0,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(history, name)
        self._partitions = partitions
        self._is_durable = acks == "all" if is_durable is None else is_durable
        self._is_idempotent = acks == "all" if is_idempotent is None else is_idempotent
        self._per_second = per_second
        self._padding = "." * padding
        self._producer = Producer(
            {
                **QUIET,
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "acks": acks,
                "enable.idempotence": self._is_idempotent,
                **({"max.in.flight": 1} if self._is_idempotent else {}),
                "delivery.timeout.ms": DELIVERY_S * 1000,
                "request.timeout.ms": 4_000,
                "linger.ms": 5,
                **(configs or {}),
            }
        )

    def work(self) -> None:
        """Sends bursts, then waits for all outcomes."""
        burst = max(1, self._per_second // 50)
        numbers = count()
        while not self.ending:
            for number in islice(numbers, burst):
                self._send(number)
            self._producer.poll(0)
            self.pace(self._per_second / burst)
        self._producer.flush(FINISH_LIMIT_S / 2)
        self._producer.purge()
        self._producer.flush(5)

    def _send(self, number: int) -> None:
        at = self._partitions[number % len(self._partitions)]
        done = partial(self._delivered, number, at)
        value = value_of(self.name, number) + self._padding
        self._producer.produce(at.topic, value, partition=at.partition, on_delivery=done)

    def _delivered(self, number: int, at: At, error: KafkaError | None, message: Message) -> None:
        outcome = Outcome.OK if error is None else Outcome.UNKNOWN
        offset = message.offset() if error is None else None
        self.history.add(
            Sent(self.name, number, at, outcome, offset, None, self._is_durable, self._is_idempotent)
        )


class Transacting(Client):
    """A producer of transactions over some partitions, of which it aborts some."""

    def __init__(
        self,
        history: History,
        bootstrap: str,
        name: str,
        partitions: Sequence[At],
        *,
        seed: int = 0,
        per_second: float = 10,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(history, name)
        self._partitions = partitions
        self._random = Random(f"{seed} {name}")
        self._per_second = per_second
        self._settings = {
            **QUIET,
            "bootstrap.servers": bootstrap,
            "client.id": name,
            "transactional.id": name,
            "transaction.timeout.ms": 20_000,
            "delivery.timeout.ms": 20_000,
            "request.timeout.ms": 4_000,
            "linger.ms": 2,
            **(configs or {}),
        }
        self._numbers = count()
        self._producer: Producer | None = None

    def work(self) -> None:
        """Transactions one after the other; a producer that failed is replaced by one that fences it."""
        for number in count():
            if self.ending:
                break
            self._transact(f"{self.name}#{number}")
            self.pace(self._per_second)

    def _transact(self, name: str) -> None:
        producer = self._ready()
        if producer is None:
            return
        sent: list[tuple[int, At, list[int]]] = []
        outcome = Outcome.UNKNOWN
        try:
            producer.begin_transaction()
            sent.extend(self._send(producer) for _ in range(self._random.randint(1, 5)))
            if self._random.random() < 0.3:
                producer.flush(20)
                self._abort(producer)
                outcome = Outcome.FAILED
            else:
                self._commit(producer)
                outcome = Outcome.OK
        except KafkaException as error:
            self._recover(producer, error)
        for number, at, offsets in sent:
            known = Outcome.OK if offsets else Outcome.UNKNOWN
            self.history.add(Sent(self.name, number, at, known, offsets[0] if offsets else None, name))
        self.history.add(TransactionEnded(name, outcome))

    def _ready(self) -> Producer | None:
        """The producer; None where none could be initialized before the end."""
        while self._producer is None and not self.ending:
            fresh = Producer(dict(self._settings))
            try:
                fresh.init_transactions(10)
            except KafkaException:
                continue
            self._producer = fresh
        return self._producer

    def _send(self, producer: Producer) -> tuple[int, At, list[int]]:
        number, at = next(self._numbers), self._random.choice(self._partitions)
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                offsets.append(offset)

        producer.produce(at.topic, value_of(self.name, number), partition=at.partition, on_delivery=delivered)
        return number, at, offsets

    def _commit(self, producer: Producer) -> None:
        self._until_done(lambda: producer.commit_transaction(5))

    def _abort(self, producer: Producer) -> None:
        self._until_done(lambda: producer.abort_transaction(5))

    def _until_done(self, end: Callable[[], object]) -> None:
        """Repeats what may be repeated: the coordinator may be moving."""
        deadline = time.monotonic() + LIMIT_S
        while True:
            try:
                end()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return

    def _recover(self, producer: Producer, error: KafkaException) -> None:
        """Aborts where that is all it takes; the next transaction has a new producer otherwise."""
        if error.args[0].txn_requires_abort():
            try:
                self._abort(producer)
            except KafkaException:
                self._producer = None
        else:
            self._producer = None


class Reading(Client):
    """A consumer of some partitions, from their beginning."""

    def __init__(
        self,
        history: History,
        bootstrap: str,
        name: str,
        partitions: Sequence[At],
        *,
        is_committed: bool = True,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(history, name)
        self._partitions = partitions
        self._is_committed = is_committed
        self._settings = {**consumer_settings(bootstrap, name, is_committed=is_committed), **(configs or {})}

    def work(self) -> None:
        """Reads in one assignment that never ends."""
        consumer = Consumer(self._settings)
        try:
            consumer.assign([TopicPartition(*at, OFFSET_BEGINNING) for at in self._partitions])
            for at in self._partitions:
                self.history.add(Assigned(self.name, 1, at, 0))
            while not self.ending:
                for message in consumer.consume(200, 0.2):
                    note_polled(self.history, self.name, 1, message, is_committed=self._is_committed)
        finally:
            consumer.close()


class InGroup(Client):
    """A member of a group, which commits what it has read. `protocol` is classic or consumer."""

    def __init__(
        self,
        history: History,
        bootstrap: str,
        name: str,
        group: str,
        topic: str,
        *,
        protocol: str = "classic",
        configs: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(history, name)
        self._group, self._topic, self._protocol = group, topic, protocol
        timeouts: dict[str, object] = (
            {} if protocol == "consumer" else {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
        )
        self._settings = {
            **consumer_settings(bootstrap, name),
            "group.id": group,
            "group.protocol": protocol,
            **timeouts,
            **(configs or {}),
        }
        self._assignments: dict[At, int] = {}
        self._numbers = count(1)
        self._next: dict[At, int] = {}
        self._failed: KafkaException | None = None

    def work(self) -> None:
        """Polls and commits, one after the other."""
        consumer = Consumer(self._settings)
        try:
            consumer.subscribe([self._topic], on_assign=self._assigned, on_revoke=self._revoked)
            while not self.ending:
                self._read(consumer.consume(100, 0.2))
                self._commit(consumer)
        finally:
            consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        known = len(self.history)
        begins = self._committed(consumer, partitions)
        for each in begins:
            at = At(each.topic, each.partition)
            each.offset = max(each.offset, 0)
            self._assignments[at] = next(self._numbers)
            self.history.add(Assigned(self.name, self._assignments[at], at, each.offset, self._group, known))
        if self._protocol == "consumer":
            consumer.incremental_assign(begins)
        else:
            consumer.assign(begins)

    def _committed(self, consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Asks until there is an answer: a coordinator may be moving. Empty where the client is to end instead."""
        deadline = time.monotonic() + LIMIT_S
        while partitions:
            try:
                found: list[TopicPartition] = consumer.committed(partitions, 5)
            except KafkaException:
                found = []
            if found and not any(each.error for each in found):
                return found
            if self.ending:
                return []
            if time.monotonic() > deadline:
                raise NeverHappenedError(f"{self.name} cannot fetch the offsets of {self._group}")
        return []

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            at = At(each.topic, each.partition)
            self._assignments.pop(at, None)
            self._next.pop(at, None)
        if self._protocol == "consumer":
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _read(self, messages: Iterable[Message]) -> None:
        for message in messages:
            at = _at(message)
            if message.error() is None and at in self._assignments:
                note_polled(self.history, self.name, self._assignments[at], message)
                self._next[at] = _offset(message) + 1

    def _commit(self, consumer: Consumer) -> None:
        if not self._next:
            return
        wanted = [TopicPartition(*at, offset) for at, offset in self._next.items()]
        assignments = dict(self._assignments)
        self._next = {}
        try:
            answers: Any = consumer.commit(offsets=wanted, asynchronous=False)
            outcomes = {_key(each): _outcome(each.error) for each in answers}
        except KafkaException as error:
            outcomes = {_key(each): _outcome(error.args[0]) for each in wanted}
        for each in wanted:
            at = _key(each)
            self.history.add(
                OffsetCommitted(self._group, self.name, assignments[at], at, each.offset, outcomes[at])
            )


def consumer_settings(bootstrap: str, name: str, *, is_committed: bool = True) -> dict[str, object]:
    """The settings of a consumer that commits nothing by itself and never resets by itself."""
    return {
        **QUIET,
        "bootstrap.servers": bootstrap,
        "client.id": name,
        "group.id": name,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed" if is_committed else "read_uncommitted",
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 50,
    }


def note_polled(
    history: History, consumer: str, assignment: int, message: Message, *, is_committed: bool = True
) -> None:
    """Notes a record; an error of the poll counts for nothing unless it is one of offsets."""
    error = message.error()
    if error is not None:
        if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            raise AssertionError(f"{consumer} is out of range: {error}")
        return
    history.add(Polled(consumer, assignment, _at(message), _offset(message), text_of(message), is_committed))


def text_of(message: Message) -> str:
    """The value without its padding."""
    value = message.value()
    assert value is not None
    return value.decode().rstrip(".")


def final_read(history: History, bootstrap: str, partitions: Sequence[At], limit_s: float = LIMIT_S) -> None:
    """Reads everything with read_committed, to the high watermark. Raises where a transaction hangs before it."""
    settings = {**consumer_settings(bootstrap, "final"), "enable.partition.eof": True}
    consumer, plain = Consumer(settings), Consumer(consumer_settings(bootstrap, "ends", is_committed=False))
    try:
        for at in partitions:
            history.add(_read_all(consumer, plain, at, time.monotonic() + limit_s))
    finally:
        consumer.close()
        plain.close()


def _read_all(consumer: Consumer, plain: Consumer, at: At, deadline: float) -> FinalRead:
    start, end = watermarks(plain, at, deadline)
    values: dict[int, str] = {}
    reached = start
    consumer.assign([TopicPartition(*at, start)])
    while reached < end:
        message = consumer.poll(0.5)
        if message is not None and (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                reached = _offset(message)
        elif message is not None:
            values[_offset(message)] = text_of(message)
            reached = _offset(message) + 1
        if time.monotonic() > deadline:
            raise NeverHappenedError(f"{at} can be read to {reached} and ends at {end}: a transaction hangs")
    return FinalRead(at, start, end, values)


def watermarks(consumer: Consumer, at: At, deadline: float) -> tuple[int, int]:
    """The log start offset and the high watermark of a partition; tried until the deadline."""
    while True:
        try:
            found: tuple[int, int] = consumer.get_watermark_offsets(TopicPartition(*at), 5, cached=False)
        except KafkaException:
            if time.monotonic() > deadline:
                raise
        else:
            return found


def _outcome(error: KafkaError | None) -> Outcome:
    if error is None:
        return Outcome.OK
    return Outcome.FAILED if error.code() in FENCED else Outcome.UNKNOWN


def _key(partition: TopicPartition) -> At:
    return At(partition.topic, partition.partition)


def _at(message: Message) -> At:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return At(topic, partition)


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset
