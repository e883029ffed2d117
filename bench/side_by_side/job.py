"""A worker's job and its outcome, each a line of JSON."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

Settings = Mapping[str, str | int | float | bool]
"""Of a client of librdkafka."""


@dataclass(frozen=True)
class Job:
    """The kind of worker, its topic, and its parameters. Most workers read only some."""

    kind: str = ""
    bootstrap: str = ""
    topic: str = ""
    partitions: int = 4
    size: int = 1024
    """Bytes of a message's value."""
    count: int = 0
    """Messages to send; to receive, where the worker cannot know it from `firsts` and `ends`."""
    seconds: float = 0.0
    """For workers that go by the clock."""
    cap_s: float = 5.0
    """After so long a sender leaves off before its count."""
    rate: float = 0.0
    """Messages a second, of workers that keep a pace."""
    clients: int = 1
    in_flight: int = 5
    acks: str = "all"
    keyed: bool = False
    """Whether messages have keys, as many as there are values."""
    spread: bool = False
    """Whether messages go to one partition after the other, instead of as the client likes."""
    connects: bool = False
    """Whether a producer sends a message to each partition before the signal: then it is connected to all leaders."""
    transaction_s: float = 0.0
    """How long each transaction lasts; 0 for none."""
    settings: Settings = field(default_factory=dict)
    firsts: Sequence[int] = ()
    ends: Sequence[int] = ()
    least_s: float = 1.0
    """What is read is read again until so much time is filled."""

    def line(self) -> str:
        """As it goes to the worker."""
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def parse(line: str) -> Job:
        """As the worker has it."""
        return Job(**json.loads(line))


@dataclass
class Outcome:
    """The results of a worker between the signal and its end."""

    done: int = 0
    """Messages acknowledged, or received; requests answered."""
    missing: int = 0
    """What was neither, though it should have been."""
    seconds: float = 0.0
    bytes: int = 0
    beside: int = 0
    """Offsets taken by what `done` does not count: control records, messages before the signal."""
    latencies_ms: list[float] = field(default_factory=list)
    cpu_s: float = 0.0
    """Of the worker itself."""
    error: str = ""

    def line(self) -> str:
        """As it goes to the one who waits."""
        return json.dumps(asdict(self)) + "\n"

    @staticmethod
    def parse(line: str) -> Outcome:
        """As the one who waits has it."""
        return Outcome(**json.loads(line))


def values(size: int, count: int = 500) -> list[bytes]:
    """Messages such as logs are made of: names repeat, numbers do not; lz4 has about half of it left."""
    rng = random.Random(size)
    return [_value(rng, size) for _ in range(count)]


def _value(rng: random.Random, size: int) -> bytes:
    text = ""
    while len(text) < size:
        text += (
            f'{{"order":{rng.getrandbits(60)},"customer":"{rng.getrandbits(40):x}",'
            f'"state":"delivered","total":{rng.random():.6f}}}'
        )
    return text[:size].encode()
