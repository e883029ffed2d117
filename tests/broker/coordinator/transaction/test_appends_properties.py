"""For any results of the coordinator, at any time: acknowledged batches are in the log, once and in order."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.replica.append import append_error_of
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.offsets import FetchIsolation
from tests.broker.coordinator.transaction.test_appends import ADDING, OLDEST, Harness, Heard
from tests.broker.coordinator.transaction.txn_fakes import txn_batch

PARTITIONS = (0, 1)
SAID = (
    ErrorCode.NONE,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sets(st.sampled_from(PARTITIONS), min_size=1)),
        st.tuples(st.just("say"), st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(SAID))),
        st.tuples(st.just("hold"), st.booleans()),
        st.tuples(st.just("release"), st.none()),
        st.tuples(st.just("wait"), st.floats(0.001, 0.2)),
        st.tuples(st.just("end"), st.booleans()),
    ),
    max_size=30,
)


class Client:
    """A producer that does not wait for responses; a rejected batch is not sent again."""

    def __init__(self, harness: Harness, version: int) -> None:
        self.harness = harness
        self.version = version
        self.next_sequence = [0, 0]
        self.sent: list[tuple[list[tuple[int, int]], Heard]] = []
        """The partitions and sequences of each request, and its response."""

    def send(self, partitions: set[int]) -> None:
        """Sends one batch to each of the partitions, the first of them first."""
        wanted = sorted(partitions)
        sequences = [(index, self.next_sequence[index]) for index in wanted]
        records = {index: txn_batch(f"{sequence}", sequence=sequence) for index, sequence in sequences}
        for index in wanted:
            self.next_sequence[index] += 1
        self.sent.append((sequences, self.harness.produce_to(records, version=self.version)))

    def acknowledged(self, partition: int) -> list[int]:
        """The sequences of that partition, in the order in which they were sent."""
        return [
            sequence
            for sequences, heard in self.sent
            for at, (index, sequence) in enumerate(sequences)
            if index == partition and append_error_of(heard[at]) is ErrorCode.NONE
        ]


def in_log(harness: Harness, partition: int) -> list[int]:
    """The sequences of the data that is there."""
    data = harness.log(partition).read(0, 1_000_000, FetchIsolation.LOG_END, min_one_message=True)
    found = [it for it in batches(data.records.read()) if isinstance(it, RecordBatch) and not it.is_control]
    return [it.base_sequence for it in found]


@settings(max_examples=60, deadline=None)
@given(ACTIONS, st.sampled_from([OLDEST, ADDING]))
def test_acknowledged_batches_are_in_the_log_once_and_in_order(
    actions: list[tuple[str, object]], version: int
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        harness = Harness(Path(directory))
        try:
            play(harness, actions, version)
        finally:
            harness.broker.kill()


def play(harness: Harness, actions: list[tuple[str, object]], version: int) -> None:
    coordinator, timer, client = harness.coordinator, harness.broker.timer, Client(harness, version)
    for action, argument in actions:
        if action == "send":
            client.send(argument)  # type: ignore[arg-type]
        elif action == "say":
            index, code = argument  # type: ignore[misc]
            coordinator.says["t", index] = code  # type: ignore[has-type]
        elif action == "hold":
            coordinator.holds = bool(argument)
        elif action == "release":
            coordinator.release()
        elif action == "wait":
            timer.advance(argument)  # type: ignore[arg-type]
        else:
            harness.end(commit=bool(argument))
    coordinator.holds = False
    coordinator.release()
    timer.advance(60)
    for partition in PARTITIONS:
        found = in_log(harness, partition)
        assert found == client.acknowledged(partition) == list(range(len(found)))
    harness.end(commit=False)
    log = harness.log(0)
    assert log.last_stable_offset == log.high_watermark
