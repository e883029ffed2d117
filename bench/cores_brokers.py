"""Several broker processes on one machine, each with its own data and its own clients, beside one."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from bench import accounting, machine
from bench.side_by_side.contestants import Contestant, ours
from bench.side_by_side.crew import Crew
from bench.side_by_side.job import Job

TOPIC: Final = "cores"
PARTITIONS: Final = 4
ARRANGEMENTS: Final = ((1, 1), (1, 2), (2, 2))
"""Brokers and clients."""
KINDS: Final = {
    "1 KiB, 1 MB batches": Job(kind="produce", partitions=PARTITIONS),
    "1 KiB, zstd": Job(kind="produce", partitions=PARTITIONS, settings={"compression.type": "zstd"}),
    "one message a request": Job(kind="one-each", partitions=PARTITIONS, size=100, clients=4, acks="1"),
}


class Rates(NamedTuple):
    """Messages a second of all clients, and microseconds of the processor for each, brokers' and clients'."""

    messages_per_second: float
    broker_us: float
    client_us: float
    idle_share: float
    """Of the machine, while they ran."""


@contextmanager
def running(count: int) -> Iterator[list[Contestant]]:
    """So many brokers with empty topics."""
    with contextlib.ExitStack() as stack:
        brokers = [Contestant(f"broker {number}", ours) for number in range(count)]
        for broker in brokers:
            stack.callback(broker.remove)
            broker.start()
            broker.create(TOPIC, PARTITIONS)
        yield brokers


def measure(brokers: Sequence[Contestant], clients: int, job: Job, seconds: float) -> Rates:
    """The clients spread over the brokers, all at once."""
    jobs = [
        Job(
            **{
                **job.__dict__,
                "bootstrap": brokers[number % len(brokers)].broker.bootstrap,
                "topic": TOPIC,
                "count": 10**9,
                "seconds": seconds,
                "cap_s": seconds,
            }
        )
        for number in range(clients)
    ]
    with Crew(jobs, 60 + seconds) as crew:
        used = sum(accounting.cpu_s(broker.pid) for broker in brokers)
        busy, began = accounting.machine_busy_s(), time.monotonic()
        crew.go()
        outcomes = crew.outcomes()
        elapsed = time.monotonic() - began
        busy = accounting.machine_busy_s() - busy
        used = sum(accounting.cpu_s(broker.pid) for broker in brokers) - used
    done = sum(outcome.done for outcome in outcomes)
    assert done
    assert not any(outcome.missing for outcome in outcomes)
    return Rates(
        sum(outcome.done / outcome.seconds for outcome in outcomes),
        used * 1e6 / done,
        sum(outcome.cpu_s for outcome in outcomes) * 1e6 / done,
        max(1 - busy / (elapsed * machine.cores()), 0.0),
    )


def medians(found: Sequence[Rates]) -> Rates:
    """Of each figure."""
    return Rates(*(statistics.median(figures) for figures in zip(*found, strict=True)))


def compare(seconds: float, rounds: int) -> dict[str, dict[tuple[int, int], Rates]]:
    """Every kind of load in every arrangement, the arrangements in turns."""
    found: dict[str, dict[tuple[int, int], list[Rates]]] = {}
    with running(max(brokers for brokers, _ in ARRANGEMENTS)) as processes:
        for _ in range(rounds):
            for name, job in KINDS.items():
                for arrangement in ARRANGEMENTS:
                    brokers, clients = arrangement
                    rates = measure(processes[:brokers], clients, job, seconds)
                    found.setdefault(name, {}).setdefault(arrangement, []).append(rates)
    return {
        name: {key: medians(figures) for key, figures in by_arrangement.items()}
        for name, by_arrangement in found.items()
    }
