"""Finds in a history what a cluster may not do. After jepsen.tests.kafka, with what Kafka promises beyond it.

    anomalies = check(history)

A record is durable once it is acknowledged with acks=all and, in a transaction, once that is committed. What an outcome
leaves open counts in the cluster's favour: a record with Outcome.UNKNOWN may be there or not, a transaction with
Outcome.UNKNOWN has all of its records or none.

Kafka does not isolate the writes of transactions from each other: producers alternate in each partition as they please,
so that cycles of writes alone (G0) are no anomaly. `cycles(view, with_writes=True)` finds these too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import pairwise
from typing import Final, NamedTuple

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


class Kind(StrEnum):
    """The kinds of anomalies."""

    UNKNOWN_VALUE = "a value that nobody sent"
    ABORTED_READ = "a read of an aborted transaction, or of a record that was never sent"
    TWO_VALUES = "two values at one offset"
    LOST = "an acknowledged record is gone"
    VANISHED = "a record that was read is gone"
    DUPLICATE = "a record of an idempotent producer at two offsets"
    REORDERED = "the records of a producer in another order than sent"
    BACKWARD_POLL = "a consumer went back inside an assignment"
    SKIPPED_POLL = "a consumer passed over a record inside an assignment"
    COMMIT_BEYOND = "an offset committed beyond what was read"
    LOST_COMMIT = "an assignment begins below an acknowledged commit"
    FOREIGN_POSITION = "an assignment begins beyond every commit"
    PARTIAL_TRANSACTION = "a part of a transaction"
    CYCLE = "transactions that depend on each other in a circle"


class Anomaly(NamedTuple):
    """One finding."""

    kind: Kind
    about: str

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.about}"


Place = tuple[At, int]
"""A partition and an offset."""


class View:
    """A history, arranged for the checks."""

    def __init__(self, history: History) -> None:
        self.events = list(history.events)
        self.sent = {event.value: event for event in self.events if isinstance(event, Sent)}
        self.polls = [event for event in self.events if isinstance(event, Polled)]
        self.finals = {event.at: event for event in self.events if isinstance(event, FinalRead)}
        self.kept = {at: frozenset(final.values.values()) for at, final in self.finals.items()}
        """The values of each final read."""
        self.transactions = {
            event.transaction: event for event in self.events if isinstance(event, TransactionEnded)
        }

    def outcome_of(self, sent: Sent) -> Outcome:
        """What is known about a record: of one in a transaction, what is known about that."""
        if sent.transaction is None or sent.outcome is Outcome.FAILED:
            return sent.outcome
        ended = self.transactions.get(sent.transaction)
        return Outcome.UNKNOWN if ended is None else ended.outcome

    def reads(self) -> Iterator[tuple[At, int, str, bool]]:
        """Every record that was read: partition, offset, value, whether with read_committed."""
        for poll in self.polls:
            yield poll.at, poll.offset, poll.value, poll.is_committed
        for final in self.finals.values():
            for offset, value in final.values.items():
                yield final.at, offset, value, final.is_committed

    def places(self) -> dict[str, set[Place]]:
        """Where each value was read."""
        found: dict[str, set[Place]] = defaultdict(set)
        for at, offset, value, _ in self.reads():
            found[value].add((at, offset))
        return found


Check = Callable[[View], Iterable[Anomaly]]


def check(history: History) -> list[Anomaly]:
    """All anomalies of a history, each once."""
    view = View(history)
    return list(dict.fromkeys(anomaly for each in CHECKS for anomaly in each(view)))


def strange_reads(view: View) -> Iterator[Anomaly]:
    """Values that nobody sent, and aborted ones that read_committed shows (G1a)."""
    for at, offset, value, is_committed in view.reads():
        sent = view.sent.get(value)
        if sent is None or sent.at != at:
            yield Anomaly(Kind.UNKNOWN_VALUE, f"{value!r} at {at}:{offset}")
        elif sent.outcome is Outcome.FAILED or (
            is_committed and sent.transaction is not None and view.outcome_of(sent) is Outcome.FAILED
        ):
            yield Anomaly(Kind.ABORTED_READ, f"{value} at {at}:{offset} (transaction {sent.transaction})")


def two_values(view: View) -> Iterator[Anomaly]:
    """Over all readers and all time; what acks=1 acknowledged may have been overwritten since."""
    found: dict[Place, set[str]] = defaultdict(set)
    for at, offset, value, _ in view.reads():
        found[at, offset].add(value)
    for sent in view.sent.values():
        if sent.outcome is Outcome.OK and sent.offset is not None and sent.is_durable:
            found[sent.at, sent.offset].add(sent.value)
    for (at, offset), values in found.items():
        if len(values) > 1:
            yield Anomaly(Kind.TWO_VALUES, f"{at}:{offset} has {', '.join(sorted(values))}")


def lost(view: View) -> Iterator[Anomaly]:
    """Without a final read of a partition only what readers have passed counts as lost."""
    read = view.places()
    highest: dict[At, int] = defaultdict(lambda: -1)
    for poll in view.polls:
        highest[poll.at] = max(highest[poll.at], poll.offset)
    for sent in view.sent.values():
        if view.outcome_of(sent) is not Outcome.OK or not sent.is_durable:
            continue
        final = view.finals.get(sent.at)
        if final is not None:
            is_lost = not _was_deleted(sent.offset, final) and sent.value not in view.kept[sent.at]
        else:
            is_lost = sent.offset is not None and sent.offset <= highest[sent.at] and sent.value not in read
        if is_lost:
            yield Anomaly(Kind.LOST, f"{sent.value}, acknowledged at {sent.at}:{sent.offset}")


def _was_deleted(offset: int | None, final: FinalRead) -> bool:
    return offset is not None and offset < final.start


def vanished(view: View) -> Iterator[Anomaly]:
    """What was read was below the high watermark, and stays."""
    for poll in view.polls:
        final, sent = view.finals.get(poll.at), view.sent.get(poll.value)
        if final is None or sent is None or poll.offset < final.start:
            continue
        may_be_aborted = not poll.is_committed and view.outcome_of(sent) is not Outcome.OK
        if sent.transaction is not None and final.is_committed and may_be_aborted:
            continue
        if final.values.get(poll.offset) != poll.value:
            there = final.values.get(poll.offset, "nothing")
            yield Anomaly(Kind.VANISHED, f"{poll.value} at {poll.at}:{poll.offset}, where {there} is now")


def duplicates(view: View) -> Iterator[Anomaly]:
    """Of idempotent and transactional producers."""
    for value, places in view.places().items():
        sent = view.sent.get(value)
        if sent is not None and sent.is_idempotent and len(places) > 1:
            shown = ", ".join(f"{at}:{offset}" for at, offset in sorted(places))
            yield Anomaly(Kind.DUPLICATE, f"{value} at {shown}")


def reordered(view: View) -> Iterator[Anomaly]:
    """The records of an idempotent producer stand in a partition in the order in which they were sent."""
    numbers: dict[tuple[str, At], set[tuple[int, int]]] = defaultdict(set)
    for value, places in view.places().items():
        sent = view.sent.get(value)
        if sent is not None and sent.is_idempotent:
            for at, offset in places:
                numbers[sent.producer, at].add((offset, sent.number))
    for (producer, at), found in numbers.items():
        for (before, earlier), (after, later) in pairwise(sorted(found)):
            if earlier > later and before < after:
                about = f"{producer} sent {later} before {earlier}, which are at {at}:{after} and :{before}"
                yield Anomaly(Kind.REORDERED, about)


def polls_in_order(view: View) -> Iterator[Anomaly]:
    """Inside an assignment offsets rise, and no record that others see lies between two that follow each other."""
    visible: dict[At, set[int]] = defaultdict(set)
    for at, offset, _, is_committed in view.reads():
        if is_committed:
            visible[at].add(offset)
    last: dict[tuple[str, int, At], int] = {}
    for event in view.events:
        if isinstance(event, Assigned):
            last[event.consumer, event.assignment, event.at] = event.position - 1
        elif isinstance(event, Polled):
            key = (event.consumer, event.assignment, event.at)
            before, last[key] = last.get(key, event.offset - 1), event.offset
            if event.offset <= before:
                about = f"{event.consumer} read {event.at}:{event.offset} after :{before}"
                yield Anomaly(Kind.BACKWARD_POLL, about)
            for missed in range(before + 1, event.offset):
                if missed in visible[event.at]:
                    about = (
                        f"{event.consumer} read {event.at}:{event.offset} after :{before}, without :{missed}"
                    )
                    yield Anomaly(Kind.SKIPPED_POLL, about)


def commits(view: View) -> Iterator[Anomaly]:
    """No commit beyond what the consumer has read, no assignment that begins before or beyond what was committed."""
    read_to: dict[tuple[str, int, At], int] = {}
    committed: dict[tuple[str, At], list[tuple[int, OffsetCommitted]]] = defaultdict(list)
    for index, event in enumerate(view.events):
        if isinstance(event, Assigned):
            read_to[event.consumer, event.assignment, event.at] = event.position
            if event.group is not None:
                yield from _beginning(index, event, committed[event.group, event.at], view)
        elif isinstance(event, Polled):
            key = (event.consumer, event.assignment, event.at)
            read_to[key] = max(read_to.get(key, 0), event.offset + 1)
        elif isinstance(event, OffsetCommitted):
            committed[event.group, event.at].append((index, event))
            position = read_to.get((event.consumer, event.assignment, event.at), 0)
            if event.offset > position:
                about = f"{event.consumer} committed {event.at}:{event.offset} and had read to :{position}"
                yield Anomaly(Kind.COMMIT_BEYOND, about)


def _beginning(
    index: int, assigned: Assigned, committed: list[tuple[int, OffsetCommitted]], view: View
) -> Iterator[Anomaly]:
    kept = [each.offset for at, each in committed if at < assigned.known and each.outcome is Outcome.OK]
    where = f"{assigned.consumer} begins {assigned.at} at {assigned.position}"
    if kept and assigned.position < max(kept):
        yield Anomaly(Kind.LOST_COMMIT, f"{where}, and {max(kept)} was committed")
    if assigned.position > max([0, *_tried(index, assigned, view)]):
        yield Anomaly(Kind.FOREIGN_POSITION, f"{where}, beyond all commits")


def _tried(index: int, assigned: Assigned, view: View) -> Iterator[int]:
    """The commits that an assignment may have found: those before it, and of each consumer the one under way then."""
    under_way: set[str] = set()
    for at, event in enumerate(view.events):
        if not isinstance(event, OffsetCommitted) or event.outcome is Outcome.FAILED:
            continue
        if (event.group, event.at) != (assigned.group, assigned.at):
            continue
        if at < index:
            yield event.offset
        elif event.consumer not in under_way:
            under_way.add(event.consumer)
            yield event.offset


def partial_transactions(view: View) -> Iterator[Anomaly]:
    """A transaction whose outcome the producer does not know: read_committed shows all of its records or none."""
    of: dict[str, list[Sent]] = defaultdict(list)
    for sent in view.sent.values():
        if sent.transaction is not None and view.outcome_of(sent) is Outcome.UNKNOWN:
            of[sent.transaction].append(sent)
    for name, records in of.items():
        finals = [view.finals.get(sent.at) for sent in records]
        if not all(final is not None and final.is_committed for final in finals):
            continue
        there = [sent.value in view.kept[sent.at] for sent in records]
        if any(there) and not all(there):
            yield Anomaly(Kind.PARTIAL_TRANSACTION, f"{name}: {sum(there)} of {len(there)} records")


def circles(view: View) -> Iterator[Anomaly]:
    """Transactions that read each other's records in a circle (G1c)."""
    yield from cycles(view)


def cycles(view: View, *, with_writes: bool = False) -> Iterator[Anomaly]:
    """Circles of wr dependencies, and with `with_writes` of ww ones too; those of writes alone Kafka allows."""
    after: dict[str, set[str]] = defaultdict(set)
    for ended in view.transactions.values():
        for value in ended.reads:
            writer = view.sent.get(value)
            if writer is not None and writer.transaction not in {None, ended.transaction}:
                after[str(writer.transaction)].add(ended.transaction)
    if with_writes:
        for earlier, later in _writes_that_follow(view):
            after[earlier].add(later)
    circle = _circle(after)
    if circle:
        yield Anomaly(Kind.CYCLE, " -> ".join(circle))


def _writes_that_follow(view: View) -> Iterator[tuple[str, str]]:
    """Pairs of transactions whose records follow each other in a partition."""
    by_partition: dict[At, dict[int, str]] = defaultdict(dict)
    for at, offset, value, _ in view.reads():
        sent = view.sent.get(value)
        if sent is not None and sent.transaction is not None:
            by_partition[at][offset] = sent.transaction
    for names in by_partition.values():
        for (_, earlier), (_, later) in pairwise(sorted(names.items())):
            if earlier != later:
                yield earlier, later


def _circle(after: Mapping[str, set[str]]) -> list[str]:
    """A circle in a graph, from one of its nodes back to it; empty if there is none."""
    done: set[str] = set()
    for start in sorted(after):
        path: list[str] = []
        waiting = [(start, iter(sorted(after[start])))] if start not in done else []
        while waiting:
            node, following = waiting[-1]
            if len(path) < len(waiting):
                path.append(node)
            upon = next(following, None)
            if upon is None:
                done.add(node)
                waiting.pop()
                path.pop()
            elif upon in path:
                return [*path[path.index(upon) :], upon]
            elif upon not in done:
                waiting.append((upon, iter(sorted(after.get(upon, ())))))
    return []


CHECKS: Final[tuple[Check, ...]] = (
    strange_reads,
    two_values,
    lost,
    vanished,
    duplicates,
    reordered,
    polls_in_order,
    commits,
    partial_transactions,
    circles,
)
