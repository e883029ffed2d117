"""Each anomaly by hand, and by chance: a random history without any is clean, and a fault put into it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.cluster.checker import Kind, View, check, cycles
from tests.support.cluster.histories_made import correct_history
from tests.support.cluster.history import (
    Assigned,
    At,
    Event,
    FinalRead,
    History,
    OffsetCommitted,
    Outcome,
    Polled,
    Sent,
    TransactionEnded,
)

T0, T1 = At("t", 0), At("t", 1)
OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


def sent(number: int, offset: int | None, **more: object) -> Sent:
    outcome = OK if offset is not None else UNKNOWN
    return replace(Sent("p", number, T0, outcome, offset), **more)  # type: ignore[arg-type]


def in_transaction(number: int, name: str, outcome: Outcome = OK, at: At = T0) -> Sent:
    return Sent("p", number, at, outcome, number if outcome is OK else None, name)


def polled(offset: int, value: str, consumer: str = "c", *, is_committed: bool = True) -> Polled:
    return Polled(consumer, 1, T0, offset, value, is_committed)


def final(*values: str | None, at: At = T0, start: int = 0) -> FinalRead:
    there = {start + offset: value for offset, value in enumerate(values) if value is not None}
    return FinalRead(at, start, start + len(values), there)


def commit(offset: int, outcome: Outcome = OK, consumer: str = "c") -> OffsetCommitted:
    return OffsetCommitted("g", consumer, 1, T0, offset, outcome)


def assigned(position: int, known: int, assignment: int = 1, consumer: str = "c") -> Assigned:
    return Assigned(consumer, assignment, T0, position, "g", known)


def kinds(*events: Event) -> set[Kind]:
    return {anomaly.kind for anomaly in check(History(list(events)))}


CLEAN: dict[str, list[Event]] = {
    "nothing": [],
    "sent and read": [sent(0, 0), sent(1, 1), polled(0, "p:0"), polled(1, "p:1"), final("p:0", "p:1")],
    "an unknown record is there": [sent(0, None), final("p:0")],
    "an unknown record is not there": [sent(0, None), sent(1, 0), final("p:1")],
    "what acks=1 acknowledged is overwritten": [
        sent(0, 0, is_durable=False, is_idempotent=False),
        sent(1, 0),
        polled(0, "p:1"),
        final("p:1"),
    ],
    "a producer that is not idempotent repeats": [
        sent(0, 0, is_idempotent=False),
        final("p:0", "p:0"),
    ],
    "what retention deleted": [sent(0, 0), sent(1, 1), polled(0, "p:0"), final("p:1", start=1)],
    "not read so far": [sent(0, 0), sent(1, 1), polled(0, "p:0")],
    "a transaction of unknown end, there": [
        in_transaction(0, "x"),
        in_transaction(1, "x"),
        TransactionEnded("x", UNKNOWN),
        final("p:0", "p:1", None),
    ],
    "a transaction of unknown end, not there": [
        in_transaction(0, "x"),
        in_transaction(1, "x"),
        TransactionEnded("x", UNKNOWN),
        final(None, None, None),
    ],
    "read_uncommitted sees an aborted record": [
        in_transaction(0, "x"),
        TransactionEnded("x", FAILED),
        polled(0, "p:0", is_committed=False),
        final(None, None),
    ],
    "a hole without a record": [sent(0, 0), sent(1, 2), polled(0, "p:0"), polled(2, "p:1")],
    "an assignment begins at an unknown commit": [
        sent(0, 0),
        assigned(0, 0),
        polled(0, "p:0"),
        commit(1, UNKNOWN),
        assigned(1, 4, 2),
    ],
    "an assignment begins before a commit of which it cannot know": [
        sent(0, 0),
        assigned(0, 0),
        polled(0, "p:0"),
        commit(1),
        assigned(0, 3, 1, "d"),
    ],
    "an assignment begins at a commit whose answer is under way": [
        sent(0, 0),
        assigned(0, 0),
        polled(0, "p:0"),
        assigned(1, 3, 1, "d"),
        commit(1),
    ],
    "transactions in a row": [
        in_transaction(0, "x"),
        TransactionEnded("x", OK),
        in_transaction(1, "y"),
        TransactionEnded("y", OK, ("p:0",)),
        final("p:0", "p:1"),
    ],
}

WRONG: dict[str, tuple[Kind, list[Event]]] = {
    "a value from nowhere": (Kind.UNKNOWN_VALUE, [polled(0, "q:0")]),
    "a value in another partition": (Kind.UNKNOWN_VALUE, [sent(0, None, at=T1), polled(0, "p:0")]),
    "an aborted record": (
        Kind.ABORTED_READ,
        [in_transaction(0, "x"), TransactionEnded("x", FAILED), polled(0, "p:0")],
    ),
    "an aborted record in the final read": (
        Kind.ABORTED_READ,
        [in_transaction(0, "x"), TransactionEnded("x", FAILED), final("p:0", None)],
    ),
    "a record that was never sent": (
        Kind.ABORTED_READ,
        [sent(0, None, outcome=FAILED), polled(0, "p:0", is_committed=False)],
    ),
    "two readers disagree": (
        Kind.TWO_VALUES,
        [sent(0, None), sent(1, None), polled(0, "p:0"), polled(0, "p:1", "d")],
    ),
    "the acknowledgement and a reader disagree": (
        Kind.TWO_VALUES,
        [sent(0, 0), sent(1, None), polled(0, "p:1")],
    ),
    "two acknowledgements of one offset": (Kind.TWO_VALUES, [sent(0, 0), sent(1, 0)]),
    "an acknowledged record is not in the final read": (Kind.LOST, [sent(0, 0), final(None)]),
    "readers have passed an acknowledged record": (
        Kind.LOST,
        [sent(0, 0), sent(1, 1), polled(1, "p:1")],
    ),
    "a committed transaction is not in the final read": (
        Kind.LOST,
        [in_transaction(0, "x"), TransactionEnded("x", OK), final(None, None)],
    ),
    "a read record is gone": (Kind.VANISHED, [sent(0, None), polled(0, "p:0"), final(None)]),
    "a read record of acks=1 is gone": (
        Kind.VANISHED,
        [sent(0, 0, is_durable=False), sent(1, None), polled(0, "p:0"), final("p:1")],
    ),
    "a record stands twice": (Kind.DUPLICATE, [sent(0, 0), final("p:0", "p:0")]),
    "a record is read at two offsets": (
        Kind.DUPLICATE,
        [sent(0, None), polled(0, "p:0"), polled(1, "p:0", "d")],
    ),
    "records stand in another order": (
        Kind.REORDERED,
        [sent(0, 1), sent(1, 0), final("p:1", "p:0")],
    ),
    "a consumer goes back": (
        Kind.BACKWARD_POLL,
        [sent(0, 0), sent(1, 1), polled(1, "p:1"), polled(0, "p:0")],
    ),
    "a consumer reads before its position": (
        Kind.BACKWARD_POLL,
        [sent(0, 0), Assigned("c", 1, T0, 1), polled(0, "p:0")],
    ),
    "a consumer passes over a record that others see": (
        Kind.SKIPPED_POLL,
        [
            *(sent(number, number) for number in range(3)),
            polled(0, "p:0"),
            polled(2, "p:2"),
            final("p:0", "p:1", "p:2"),
        ],
    ),
    "a consumer does not begin at its position": (
        Kind.SKIPPED_POLL,
        [sent(0, 0), sent(1, 1), Assigned("c", 1, T0, 0), polled(1, "p:1"), final("p:0", "p:1")],
    ),
    "a commit beyond what was read": (
        Kind.COMMIT_BEYOND,
        [sent(0, 0), assigned(0, 0), polled(0, "p:0"), commit(2)],
    ),
    "a commit is forgotten": (
        Kind.LOST_COMMIT,
        [sent(0, 0), assigned(0, 0), polled(0, "p:0"), commit(1), assigned(0, 4, 2)],
    ),
    "an assignment begins where nobody committed": (
        Kind.FOREIGN_POSITION,
        [sent(0, 0), assigned(0, 0), polled(0, "p:0"), commit(1), assigned(2, 4, 2)],
    ),
    "a commit that failed counts": (
        Kind.FOREIGN_POSITION,
        [sent(0, 0), assigned(0, 0), polled(0, "p:0"), commit(1, FAILED), assigned(1, 4, 2)],
    ),
    "half of a transaction": (
        Kind.PARTIAL_TRANSACTION,
        [
            in_transaction(0, "x"),
            in_transaction(1, "x", at=T1),
            TransactionEnded("x", UNKNOWN),
            final("p:0", None),
            final(None, None, at=T1),
        ],
    ),
    "two transactions read each other": (
        Kind.CYCLE,
        [
            in_transaction(0, "x"),
            in_transaction(1, "y"),
            TransactionEnded("x", OK, ("p:1",)),
            TransactionEnded("y", OK, ("p:0",)),
        ],
    ),
}


@pytest.mark.parametrize("events", CLEAN.values(), ids=CLEAN)
def test_what_a_cluster_may_do_is_no_anomaly(events: list[Event]) -> None:
    assert check(History(events)) == []


@pytest.mark.parametrize(("kind", "events"), WRONG.values(), ids=WRONG)
def test_each_anomaly_is_found(kind: Kind, events: list[Event]) -> None:
    assert kind in kinds(*events)


def test_each_kind_has_a_history_by_hand() -> None:
    assert {kind for kind, _ in WRONG.values()} == set(Kind)


def test_writes_alone_may_go_in_a_circle() -> None:
    history = History(
        [
            *(in_transaction(number, name) for number, name in ((0, "x"), (1, "y"), (2, "x"))),
            TransactionEnded("x", OK),
            TransactionEnded("y", OK),
            final("p:0", "p:1", "p:2"),
        ]
    )
    assert check(history) == []
    (found,) = cycles(View(history), with_writes=True)
    assert found.about == "x -> y -> x"


def test_a_circle_is_found_behind_a_long_chain() -> None:
    names = [f"x{number}" for number in range(2000)]
    events: list[Event] = [in_transaction(number, name) for number, name in enumerate(names)]
    events += [
        TransactionEnded(name, OK, (f"p:{number - 1}",)) for number, name in enumerate(names) if number
    ]
    assert not list(cycles(View(History(events))))
    events.append(TransactionEnded("x0", OK, ("p:1999",)))
    assert list(cycles(View(History(events))))


@given(st.integers(0), st.integers(0, 100))
@settings(max_examples=200)
def test_a_correct_cluster_has_no_anomaly(seed: int, steps: int) -> None:
    assert check(correct_history(Random(seed), steps)) == []


# ---- faults put into a correct history: each returns the new history, or None where there is no place for the fault


def reads(history: History) -> list[tuple[FinalRead, int]]:
    """The records of the final reads."""
    return [(event, at) for event in history.events if isinstance(event, FinalRead) for at in event.values]


def changed(history: History, old: Event, new: Event) -> History:
    return History([new if event is old else event for event in history.events])


def lose(history: History, random: Random) -> History | None:
    known = {event.value for event in history.events if isinstance(event, Sent) and event.outcome is OK}
    transactional = {event.value for event in history.events if isinstance(event, Sent) and event.transaction}
    found = [each for each in reads(history) if each[0].values[each[1]] in known - transactional]
    if not found:
        return None
    read, offset = random.choice(found)
    return changed(
        history, read, replace(read, values={at: v for at, v in read.values.items() if at != offset})
    )


def repeat(history: History, random: Random) -> History | None:
    found = reads(history)
    if not found:
        return None
    read, offset = random.choice(found)
    return changed(
        history,
        read,
        replace(read, values={**read.values, read.end: read.values[offset]}, end=read.end + 1),
    )


def show_aborted(history: History, random: Random) -> History | None:
    ended = {event.transaction: event for event in history.events if isinstance(event, TransactionEnded)}
    aborted = [
        event
        for event in history.events
        if isinstance(event, Sent)
        and event.transaction in ended
        and ended[event.transaction].outcome is FAILED
    ]
    if not aborted:
        return None
    record = random.choice(aborted)
    assert record.offset is not None
    return History([*history.events, Polled("z", 1, record.at, record.offset, record.value)])


def forget_commit(history: History, random: Random) -> History | None:
    commits = [
        event for event in history.events if isinstance(event, OffsetCommitted) and event.outcome is OK
    ]
    if not commits:
        return None
    kept = random.choice(commits)
    late = Assigned("z", 1, kept.at, kept.offset - 1, kept.group, len(history))
    return History([*history.events, late])


def commit_too_much(history: History, random: Random) -> History | None:
    commits = [event for event in history.events if isinstance(event, OffsetCommitted)]
    if not commits:
        return None
    beyond = random.choice(commits)
    return changed(history, beyond, replace(beyond, offset=1_000_000))


def go_back(history: History, random: Random) -> History | None:
    polls = [event for event in history.events if isinstance(event, Polled)]
    if not polls:
        return None
    again = random.choice(polls)
    index = history.events.index(again)
    return History([*history.events[: index + 1], again, *history.events[index + 1 :]])


def pass_over(history: History, random: Random) -> History | None:
    """Removes a poll between two others of the same assignment."""
    runs: dict[tuple[str, int, At], list[Polled]] = {}
    for event in history.events:
        if isinstance(event, Polled):
            runs.setdefault((event.consumer, event.assignment, event.at), []).append(event)
    inner = [poll for run in runs.values() for poll in run[1:-1]]
    if not inner:
        return None
    gone = random.choice(inner)
    return History([event for event in history.events if event is not gone])


def swap_two(history: History, random: Random) -> History | None:
    """Exchanges two records of a producer in a final read."""
    pairs = []
    for event in history.events:
        if isinstance(event, FinalRead):
            by_producer: dict[str, list[int]] = {}
            for offset, value in event.values.items():
                by_producer.setdefault(value.partition(":")[0], []).append(offset)
            pairs += [(event, offsets) for offsets in by_producer.values() if len(offsets) > 1]
    if not pairs:
        return None
    read, offsets = random.choice(pairs)
    one, two = random.sample(offsets, 2)
    return changed(
        history,
        read,
        replace(read, values={**read.values, one: read.values[two], two: read.values[one]}),
    )


def invent(history: History, random: Random) -> History | None:
    return History([*history.events, Polled("z", 1, T0, 1_000_000 + random.randrange(9), "nobody:0")])


def read_in_a_circle(history: History, random: Random) -> History | None:
    names = [event for event in history.events if isinstance(event, TransactionEnded)]
    values = {event.transaction: event.value for event in history.events if isinstance(event, Sent)}
    if len(names) < 2:
        return None
    one, two = random.sample(names, 2)
    circular = changed(history, one, replace(one, reads=(values[two.transaction],)))
    return changed(circular, two, replace(two, reads=(values[one.transaction],)))


FAULTS: dict[Callable[[History, Random], History | None], Kind] = {
    lose: Kind.LOST,
    repeat: Kind.DUPLICATE,
    show_aborted: Kind.ABORTED_READ,
    forget_commit: Kind.LOST_COMMIT,
    commit_too_much: Kind.COMMIT_BEYOND,
    go_back: Kind.BACKWARD_POLL,
    pass_over: Kind.SKIPPED_POLL,
    swap_two: Kind.REORDERED,
    invent: Kind.UNKNOWN_VALUE,
    read_in_a_circle: Kind.CYCLE,
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_a_correct_history_is_found(fault: Callable[[History, Random], History | None]) -> None:
    placed = 0

    @given(st.integers(0))
    @settings(max_examples=40)
    def faulty(seed: int) -> None:
        nonlocal placed
        random = Random(seed)
        wrong = fault(correct_history(random, 80), random)
        if wrong is not None:
            placed += 1
            assert FAULTS[fault] in {anomaly.kind for anomaly in check(wrong)}

    faulty()
    assert placed > 5
