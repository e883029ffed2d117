"""Random histories of a correct cluster, for the tests of the checker."""

from __future__ import annotations

from random import Random

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
)

PARTITIONS = (At("t", 0), At("t", 1))
GROUP = "g"
CONTROL = None
"""An offset with no record: a marker, or a record of an aborted transaction."""


class Model:
    """A cluster that does everything right, and a history of its clients."""

    def __init__(self, random: Random) -> None:
        self.history = History()
        self.logs: dict[At, list[str | None]] = {at: [] for at in PARTITIONS}
        self.hidden: set[str] = set()
        """Values of aborted transactions."""
        self._random = random
        self._numbers: dict[str, int] = {}
        self._transactions = 0
        self._assignments: dict[str, int] = {}
        self._positions: dict[tuple[str, At], int] = {}
        self._committed: dict[At, int] = {}

    def step(self) -> None:
        """One thing that a client does."""
        self._random.choice((self._send, self._send, self._transact, self._poll, self._poll, self._commit))()

    def rest(self) -> None:
        """Reads everything at the end."""
        for at, log in self.logs.items():
            values = {
                offset: value
                for offset, value in enumerate(log)
                if value is not CONTROL and value not in self.hidden
            }
            self.history.add(FinalRead(at, 0, len(log), values))

    def _append(self, producer: str, transaction: str | None = None, *, applied: bool = True) -> Sent:
        number = self._numbers.get(producer, 0)
        self._numbers[producer] = number + 1
        at = self._random.choice(PARTITIONS)
        offset = len(self.logs[at]) if applied else None
        outcome = Outcome.OK if applied else Outcome.UNKNOWN
        sent = Sent(producer, number, at, outcome, offset, transaction)
        if applied:
            self.logs[at].append(sent.value)
        return sent

    def _send(self) -> None:
        producer = self._random.choice(("p1", "p2"))
        applied = self._random.random() < 0.9
        sent = self._append(producer, applied=applied)
        if applied and self._random.random() < 0.1:  # it is there, and the producer does not know it
            sent = Sent(sent.producer, sent.number, sent.at, Outcome.UNKNOWN)
        self.history.add(sent)

    def _transact(self) -> None:
        self._transactions += 1
        name = f"x:{self._transactions}"
        reads = self._consumed() if self._random.random() < 0.5 else ()
        parts = [self._append("x", name) for _ in range(self._random.randint(1, 4))]
        is_committed = self._random.random() < 0.6
        is_known = self._random.random() < 0.8
        for sent in parts:
            self.history.add(sent)
            if not is_committed:
                self.hidden.add(sent.value)
        for at in {sent.at for sent in parts}:
            self.logs[at].append(CONTROL)
        known = Outcome.OK if is_committed else Outcome.FAILED
        self.history.add(TransactionEnded(name, known if is_known else Outcome.UNKNOWN, reads))

    def _consumed(self) -> tuple[str, ...]:
        """Some committed values."""
        committed = [
            value for log in self.logs.values() for value in log if value and value not in self.hidden
        ]
        return tuple(self._random.sample(committed, min(2, len(committed))))

    def _assign(self, consumer: str) -> None:
        self._assignments[consumer] = self._assignments.get(consumer, 0) + 1
        for at in PARTITIONS:
            position = self._committed.get(at, 0)
            self._positions[consumer, at] = position
            self.history.add(
                Assigned(consumer, self._assignments[consumer], at, position, GROUP, len(self.history))
            )

    def _poll(self) -> None:
        consumer = self._random.choice(("c1", "c2"))
        if consumer not in self._assignments or self._random.random() < 0.1:
            self._assign(consumer)
        at = self._random.choice(PARTITIONS)
        for _ in range(self._random.randint(1, 5)):
            position = self._positions[consumer, at]
            if position == len(self.logs[at]):
                return
            value = self.logs[at][position]
            self._positions[consumer, at] = position + 1
            if value is not CONTROL and value not in self.hidden:
                self.history.add(Polled(consumer, self._assignments[consumer], at, position, value))

    def _commit(self) -> None:
        """Of what is read and beyond what is committed: the model has no zombies."""
        at = self._random.choice(PARTITIONS)
        for consumer, assignment in self._assignments.items():
            read = [
                event.offset
                for event in self.history.events
                if isinstance(event, Polled)
                and (event.consumer, event.assignment, event.at) == (consumer, assignment, at)
            ]
            if read and read[-1] + 1 > self._committed.get(at, 0):
                self._committed[at] = read[-1] + 1
                outcome = self._random.choice((Outcome.OK, Outcome.OK, Outcome.UNKNOWN))
                self.history.add(OffsetCommitted(GROUP, consumer, assignment, at, read[-1] + 1, outcome))
                return


def correct_history(random: Random, steps: int) -> History:
    """The history of a cluster without faults."""
    model = Model(random)
    for _ in range(steps):
        model.step()
    model.rest()
    return model.history
