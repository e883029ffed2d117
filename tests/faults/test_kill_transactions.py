"""kill -9 under transactions: committed ones are there whole and once, others not at all, and each ends in time.

BARNABAS_KILLS is the number of kills of the longer test: 100 for a thorough run.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.protocol.messages.offsets import ListOffsetsResponse
from barnabas.protocol.messages.producers import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from tests.conformance.broker_connection import BrokerConnection, ClosedError
from tests.conformance.dialogues.words import list_offsets
from tests.faults.transactors import (
    PAYLOAD,
    BumpingTransactor,
    Copier,
    Deserter,
    LibrdkafkaTransactor,
    Outcome,
    Transactor,
    settings_of_clients,
)
from tests.interop.clients.confluent import NewTopic
from tests.support.broker_process import BrokerProcess
from tests.support.chance import seed_or

pytestmark = [pytest.mark.faults, pytest.mark.clients]

KILLS = int(os.environ.get("BARNABAS_KILLS", "8"))
PARTITIONS = 3
SOURCE: Final = "source"
COPIES: Final = ("copy-a", "copy-b")
TOPIC_CONFIG = {"segment.bytes": "1048576"}
TIMEOUT_MS, DESERTER_TIMEOUT_MS, LOOKS_EVERY_MS = 15_000, 2_000, 200
GRACE_MS = 5_000
"""The longest that a transaction may outlast its timeout: until the coordinator checks it and writes its markers."""

SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(LOOKS_EVERY_MS),
    "offsets.topic.num.partitions": "7",
    "transaction.state.log.num.partitions": "5",
    "log.segment.delete.delay.ms": "200",
}
ENDED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort"})
START_LIMIT_S = 120.0
"""Nothing is flushed between kills, so recovery has more to do each time."""

PROGRESS_LIMIT_S = 60.0
END_LIMIT_S = 60.0


@pytest.mark.timeout(120)
def test_two_kills(tmp_path: Path) -> None:
    kill_and_count(BrokerProcess(tmp_path / "data", SETTINGS), rounds=2, seed=3)


@pytest.mark.slow
@pytest.mark.timeout(120 + 20 * KILLS)
def test_many_kills_in_a_row(tmp_path: Path) -> None:
    kill_and_count(BrokerProcess(tmp_path / "data", SETTINGS), rounds=KILLS, seed=seed_or(50))


def kill_and_count(broker: BrokerProcess, rounds: int, seed: int) -> None:
    """Runs the experiment; the seed decides when it kills, and is printed."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    with broker:
        make_topics(broker.bootstrap)
        place = (broker.bootstrap, SOURCE, PARTITIONS)
        writers: list[Transactor] = [
            LibrdkafkaTransactor(0, *place, TIMEOUT_MS),
            LibrdkafkaTransactor(1, *place, TIMEOUT_MS),
            BumpingTransactor(2, *place, TIMEOUT_MS),
            BumpingTransactor(3, *place, TIMEOUT_MS),
        ]
        deserter = Deserter(4, *place, DESERTER_TIMEOUT_MS)
        copiers = [Copier(name, broker.bootstrap, SOURCE, name, PARTITIONS) for name in COPIES]
        watch = Watch(broker.port)
        for thread in (*writers, deserter, *copiers, watch):
            thread.start()
        for number in range(rounds):
            wait_for_progress(writers, copiers, dice.randrange(1, 60))
            time.sleep(dice.uniform(0.0, 0.2))
            watch.broker_is_gone()
            broker.kill()
            if number % 5 == 4:
                broker.spawn()
                time.sleep(dice.uniform(0.0, 0.8))
                broker.kill()
            broker.start(START_LIMIT_S)
            watch.broker_is_there()
            assert "Traceback" not in broker.output, broker.output[-4000:]
        wait_for_progress(writers, copiers, 20)
        for writer in (*writers, deserter):
            writer.finish()
        wait_until_all_have_ended(broker.port)
        watch.finish()
        written = read_committed(broker.bootstrap, SOURCE)
        check([*writers, deserter], written)
        wait_for_copies(broker.bootstrap, len(written))
        for copier in copiers:
            copier.finish()
        for name in COPIES:
            assert_same_records(read_committed(broker.bootstrap, name), written, name)
        print(
            f"{rounds} kills, {summary(writers)}, {watch.seen} looks, {watch.longest_ms:.0f} ms late at most"
        )
        assert "Traceback" not in broker.output, broker.output[-4000:]
        assert broker.stop() == broker.clean_status


def make_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    made = admin.create_topics(
        [NewTopic(name, PARTITIONS, 1, config=TOPIC_CONFIG) for name in (SOURCE, *COPIES)]
    )
    for future in made.values():
        future.result(30)


def summary(writers: Sequence[Transactor]) -> str:
    counts = Counter(outcome for writer in writers for outcome, _ in writer.outcomes)
    return ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome)


def wait_for_progress(writers: Sequence[Transactor], copiers: Sequence[Copier], count: int) -> None:
    """Returns once `count` more transactions are committed, and each writer and copier has committed some."""
    deadline = time.monotonic() + PROGRESS_LIMIT_S
    counted: list[Transactor | Copier] = [*writers, *copiers]
    before = [each.count for each in counted]
    while True:
        for each in counted:
            if each.failure is not None:
                raise each.failure
        gains = [each.count - was for each, was in zip(counted, before, strict=True)]
        if all(gains) and sum(gains[: len(writers)]) >= count:
            return
        assert time.monotonic() < deadline, f"only {gains} in {PROGRESS_LIMIT_S:g} s"
        time.sleep(0.001)


def read_committed(bootstrap: str, topic: str) -> list[bytes]:
    """All records that a read_committed reader finds, from the beginning to the end."""
    consumer = Consumer(
        {
            **settings_of_clients(bootstrap),
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    found: list[bytes] = []
    left = set(range(PARTITIONS))
    deadline = time.monotonic() + END_LIMIT_S
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(PARTITIONS)])
        while left:
            assert time.monotonic() < deadline, f"partitions {left} of {topic} have no end"
            for message in consumer.consume(1000, 0.2):
                error, value = message.error(), message.value()
                if error is None and value is not None:
                    found.append(value)
                elif error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    left.discard(message.partition() or 0)
    finally:
        consumer.close()
    return found


def check(writers: Sequence[Transactor], written: Sequence[bytes]) -> None:
    """Each transaction has the outcome that its writer recorded."""
    found: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for value in written:
        writer, transaction, at, count = PAYLOAD.unpack(value)
        found[writer, transaction].append((at, count))
    for each in writers:
        for transaction, (outcome, count) in enumerate(each.outcomes):
            records = sorted(found.pop((each.number, transaction), []))
            whole = [(at, count) for at in range(count)]
            expected: dict[Outcome, list[list[tuple[int, int]]]] = {
                Outcome.COMMITTED: [whole],
                Outcome.ABORTED: [[]],
                Outcome.UNKNOWN: [whole, []],
            }
            assert records in expected[outcome], (
                f"{each.name}, transaction {transaction}, {outcome}: {records}"
            )
    assert not found, f"transactions that nobody wrote: {sorted(found)[:5]}"


def wait_for_copies(bootstrap: str, count: int) -> None:
    """Returns once each copy has as many records as were written."""
    deadline = time.monotonic() + END_LIMIT_S
    for name in COPIES:
        while (found := len(read_committed(bootstrap, name))) < count:
            assert time.monotonic() < deadline, f"{found} of {count} records are in {name}"


def assert_same_records(found: Sequence[bytes], expected: Sequence[bytes], name: str) -> None:
    counts, wanted = Counter(found), Counter(expected)
    lost, doubled = wanted - counts, counts - wanted
    some = [[PAYLOAD.unpack(value) for value in list(few)[:3]] for few in (lost, doubled)]
    assert counts == wanted, f"{name}: {lost.total()} lost, {doubled.total()} doubled: {some}"


def wait_until_all_have_ended(port: int) -> None:
    """Returns when no transaction is open, and read_committed readers see all records."""
    deadline = time.monotonic() + END_LIMIT_S
    with BrokerConnection("127.0.0.1", port) as connection:
        while open_ := open_transactions(connection):
            assert time.monotonic() < deadline, open_
            time.sleep(0.05)
        for topic in (SOURCE,):
            ends = []
            for isolation_level in (0, 1):
                answer = connection.request(
                    list_offsets(topic, *range(PARTITIONS), isolation_level=isolation_level), 7
                )
                assert isinstance(answer, ListOffsetsResponse)
                ends.append({it.partition_index: it.offset for it in answer.topics[0].partitions})
            assert ends[0] == ends[1], f"{topic}: a transaction hangs: {ends}"


def open_transactions(connection: BrokerConnection) -> list[ListTransactionsResponse.TransactionState]:
    """The transactions of writers and deserters that have not ended; copiers continue meanwhile."""
    answer = connection.request(ListTransactionsRequest(), 0)
    assert isinstance(answer, ListTransactionsResponse)
    if answer.error_code:
        return [ListTransactionsResponse.TransactionState(transactional_id="?", transaction_state="loading")]
    return [
        it
        for it in answer.transaction_states
        if it.transaction_state not in ENDED and it.transactional_id not in COPIES
    ]


class Watch(threading.Thread):
    """Checks continuously how long transactions have been open: none longer than its timeout allows.

    While the broker is down no transaction can end, so the time counts from its last start.
    """

    def __init__(self, port: int) -> None:
        super().__init__(name="watch", daemon=True)
        self.seen = 0
        self.longest_ms = 0.0
        """The time for which an overdue transaction was open while the broker was up."""
        self._connection = BrokerConnection("127.0.0.1", port)
        self._there_since_ms: float | None = time.time() * 1000
        self._stop_asked = threading.Event()
        self._late: list[str] = []

    def broker_is_gone(self) -> None:
        self._there_since_ms = None

    def broker_is_there(self) -> None:
        self._there_since_ms = time.time() * 1000

    def run(self) -> None:
        while not self._stop_asked.wait(0.1):
            try:
                self._look()
            except (ClosedError, OSError):
                self._connection.close()

    def _look(self) -> None:
        ids = [it.transactional_id for it in open_transactions(self._connection)]
        answer = self._connection.request(DescribeTransactionsRequest(transactional_ids=ids), 0)
        assert isinstance(answer, DescribeTransactionsResponse)
        for state in answer.transaction_states:
            if state.transaction_state != "Ongoing" or self._there_since_ms is None:
                continue
            self.seen += 1
            now_ms = time.time() * 1000
            due_ms = state.transaction_start_time_ms + state.transaction_timeout_ms
            overdue_ms = now_ms - max(due_ms, self._there_since_ms)
            self.longest_ms = max(self.longest_ms, overdue_ms)
            if overdue_ms > GRACE_MS:
                self._late.append(f"{state.transactional_id} was due {overdue_ms:.0f} ms ago")

    def finish(self) -> None:
        self._stop_asked.set()
        self.join()
        self._connection.close()
        assert not self._late, self._late[:5]
