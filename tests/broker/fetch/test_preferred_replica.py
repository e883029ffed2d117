"""The follower from which a consumer should read."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.fetch.preferred_replica import RackAwareReplicaSelector
from barnabas.broker.replica.partition import Partition
from tests.broker.logs import batch, log, partition_image
from tests.broker.replica.isr_harness import Cluster, registration

HERE, SECOND, THIRD = 1, 2, 3
LISTENER = "PLAINTEXT"


class Choice:
    """A partition on brokers of the racks a, b and b, that the first leads."""

    def __init__(self, directory: Path) -> None:
        self.cluster = Cluster()
        self.cluster.brokers.update(
            {node: registration(node, rack=rack) for node, rack in ((HERE, "a"), (SECOND, "b"), (THIRD, "b"))}
        )
        self.partition = Partition(
            "t",
            b"t" * 16,
            partition_image(replicas=(HERE, SECOND, THIRD)),
            log(directory),
            HERE,
            context=self.cluster.context,
        )
        self.partition.append_as_leader(batch("x", "y", "z"), 1)
        self.selector = RackAwareReplicaSelector(self.cluster.context, "a")

    def fetched(self, node: int, offset: int, log_start: int = 0) -> None:
        self.partition.follower_fetched(node, offset, log_start, broker_epoch=node * 10)

    def select(self, rack: str = "b", offset: int = 0, listener: str = LISTENER) -> int | None:
        return self.selector.select(self.partition, rack, listener, offset)


class Session:
    """A fetch session by its last request."""

    last_used_ms = 0


@pytest.fixture
def choice(tmp_path: Path) -> Choice:
    made = Choice(tmp_path)
    made.fetched(SECOND, 2)
    made.fetched(THIRD, 3)
    return made


def test_the_one_with_the_most_records_in_the_rack(choice: Choice) -> None:
    assert choice.select() == THIRD
    choice.cluster.ms = 5
    choice.fetched(SECOND, 3)
    assert choice.select() == SECOND  # caught up last


def test_one_that_rests_was_caught_up_at_the_last_request_of_its_session(choice: Choice) -> None:
    choice.fetched(SECOND, 3)
    (second, third) = choice.partition.remote_replicas
    sessions = Session(), Session()
    second.rest(sessions[0])
    third.rest(sessions[1])
    for chosen, session in ((SECOND, sessions[0]), (THIRD, sessions[1])):
        choice.cluster.ms += 5
        session.last_used_ms = choice.cluster.ms
        assert choice.select() == chosen


def test_the_leader_where_it_is_in_the_rack_or_nobody_is(choice: Choice) -> None:
    assert choice.select("a") is None
    assert choice.select("c") is None


def test_one_that_has_the_offset(choice: Choice) -> None:
    choice.fetched(THIRD, 3, log_start=1)
    assert choice.select(offset=0) == SECOND
    assert choice.select(offset=3) == THIRD
    assert choice.select(offset=4) is None


def test_one_in_the_isr(choice: Choice) -> None:
    choice.partition.update(
        partition_image(replicas=(HERE, SECOND, THIRD), isr=(HERE, SECOND), partition_epoch=1)
    )
    assert choice.select() == SECOND


def test_one_that_the_consumer_can_reach(choice: Choice) -> None:
    choice.cluster.change(THIRD, fenced=True)
    assert choice.select() == SECOND
    choice.cluster.change(SECOND, listeners={})
    assert choice.select() is None
