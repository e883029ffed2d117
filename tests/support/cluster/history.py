"""What clients did and saw: a list of events, in the order in which the clients knew about them.

Values are unique: `value_of(producer, number)`, numbers rise from 0. An event is added when its outcome is known.
Several threads may add. `checker.py` judges a history; `History.save` keeps it for a reader.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple


class At(NamedTuple):
    """A partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Outcome(StrEnum):
    """What a client knows about what it asked for."""

    OK = "ok"
    FAILED = "failed"
    """Surely without effect: the client never sent it, or the transaction was aborted."""
    UNKNOWN = "unknown"
    """An error, or no answer: it may have had its effect, and may still have it."""


@dataclass(frozen=True)
class Sent:
    """A record that a producer sent. Those of a transaction have its name."""

    producer: str
    number: int
    at: At
    outcome: Outcome
    offset: int | None = None
    transaction: str | None = None
    is_durable: bool = True
    """Sent with acks=all: once acknowledged it may not be lost. With acks=1 it may."""
    is_idempotent: bool = True
    """Neither duplicated nor reordered."""

    @property
    def value(self) -> str:
        return value_of(self.producer, self.number)


@dataclass(frozen=True)
class TransactionEnded:
    """The end of a transaction: committed (OK), aborted (FAILED) or not known. `reads` are values that it consumed."""

    transaction: str
    outcome: Outcome
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Assigned:
    """The beginning of an assignment of a partition to a consumer, and where it begins to read.

    `known` counts the events that were in the history before the consumer asked for its committed offset.
    """

    consumer: str
    assignment: int
    at: At
    position: int
    group: str | None = None
    known: int = 0


@dataclass(frozen=True)
class Polled:
    """A record that a consumer was given."""

    consumer: str
    assignment: int
    at: At
    offset: int
    value: str
    is_committed: bool = True
    """The consumer reads with isolation.level=read_committed."""


@dataclass(frozen=True)
class OffsetCommitted:
    """A commit of a consumer in a group."""

    group: str
    consumer: str
    assignment: int
    at: At
    offset: int
    outcome: Outcome


@dataclass(frozen=True)
class FinalRead:
    """All that a partition holds after everything has come to rest: from its start to its end (exclusive)."""

    at: At
    start: int
    end: int
    values: Mapping[int, str]
    is_committed: bool = True


Event = Sent | TransactionEnded | Assigned | Polled | OffsetCommitted | FinalRead


def value_of(producer: str, number: int) -> str:
    """The value of a record."""
    return f"{producer}:{number}"


@dataclass
class History:
    """The events, oldest first."""

    events: list[Event] = field(default_factory=list)
    acknowledged: int = 0
    """How many records were acknowledged so far."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def add(self, event: Event) -> None:
        """Adds one event."""
        with self._lock:
            self.events.append(event)
            self.acknowledged += isinstance(event, Sent) and event.outcome is Outcome.OK

    def __len__(self) -> int:
        return len(self.events)

    def count(self, kind: type[Event], outcome: Outcome | None = None) -> int:
        """How many events of a kind there are, with this outcome if one is given."""
        with self._lock:
            found = [event for event in self.events if isinstance(event, kind)]
        return sum(outcome is None or getattr(event, "outcome", None) is outcome for event in found)

    def save(self, path: Path) -> None:
        """Writes one JSON object a line."""
        with path.open("w") as file:
            for event in self.events:
                file.write(json.dumps({"event": type(event).__name__, **asdict(event)}) + "\n")
