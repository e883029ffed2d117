"""What is shown of each row, in which table, and what its ratio to Apache Kafka is to be."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from bench.side_by_side.targets import Target

AHEAD: Final = 1.0


class Group(StrEnum):
    """A table; the values are the titles."""

    PRODUCE = "Replicated produce"
    SMALL = "Replicated produce, one record a request"
    LATENCY = "From producer to consumer"
    CPU = "Processor time of one broker, as the leader and as a follower"
    CATCH_UP = "Catch-up of a new replica"
    MEMORY = "Memory of a broker with many replicas"
    LEADERS = "Leaders that move after kill -9 of their broker"


class Figure(NamedTuple):
    """A figure by its name in samples, with its unit in `head` and its digits behind the point."""

    name: str
    head: str
    digits: int | None = None
    aim: float | None = AHEAD
    """The bound of the ratio to Apache Kafka; None where a figure explains others and is not judged."""

    def target(self, row: str) -> Target | None:
        """The aim for a row."""
        return None if self.aim is None else Target(row, self.name, self.aim)


SHOWN: Final[Mapping[Group, tuple[Figure, ...]]] = {
    Group.PRODUCE: (
        Figure("rate", "records a second", 0),
        Figure("mb_s", "MB/s", aim=None),
        Figure("cpu_us", "processor time of all brokers, us a record"),
    ),
    Group.SMALL: (
        Figure("rate", "records a second", 0),
        Figure("cpu_us", "processor time of all brokers, us a record"),
    ),
    Group.LATENCY: (
        Figure("p50_ms", "p50, ms", 2),
        Figure("p99_ms", "p99, ms", 2),
    ),
    Group.CPU: (
        Figure("leader_us", "leader, us a record", aim=0.6),
        Figure("follower_us", "each follower, us a record", aim=0.6),
    ),
    Group.CATCH_UP: (
        Figure("mb_s", "MB/s", aim=1.5),
        Figure("leader_s_gb", "processor time of the leader, s a GB", aim=None),
        Figure("follower_s_gb", "processor time of the new replica's broker, s a GB", aim=None),
    ),
    Group.MEMORY: (
        Figure("rss_mib", "idle: resident, MiB", 0, 0.2),
        Figure("pss_mib", "idle: proportional set size, MiB", 0, 0.2),
        Figure("loaded_rss_mib", "after the load: resident, MiB", 0, 0.2),
        Figure("loaded_pss_mib", "after the load: proportional set size, MiB", 0, 0.2),
    ),
    Group.LEADERS: (
        Figure("after_fencing_s", "from the fencing until the last one serves, s", 3),
        Figure("whole_s", "from the kill until the last one serves, s", 2, aim=None),
    ),
}
"""In the order of the tables."""
