"""Reports of the log directories of replicas."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, DeadlineExpired
from barnabas.broker.membership.directory_assignment import DirectoryAssignments, Place, assign_replicas
from barnabas.broker.metadata.image import MetadataDelta
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from tests.broker.cluster_images import dir_id, image_of, topic_id, topic_records
from tests.broker.fakes import ManualTimer
from tests.broker.membership.fake_submit import FakeSubmit

A, B = dir_id("a"), dir_id("b")
MANY = 2300


@dataclass(frozen=True)
class OwnReplica:
    topic_id: Uuid
    index: int


def replica(index: int = 0, topic: str = "t") -> OwnReplica:
    return OwnReplica(topic_id(topic), index)


class Reports:
    """The reports of broker 1, which has replicas of MANY partitions of t; broker 2 has one of u."""

    def __init__(self, partitions: int = 10) -> None:
        self.timer = ManualTimer()
        self.controller = FakeSubmit()
        self.image = image_of(*topic_records("t", [1] * partitions), *topic_records("u", [2]))
        self.directories: dict[tuple[str, int], Uuid] = {}
        self.assignments = DirectoryAssignments(
            self.controller,
            self.timer,
            node_id=1,
            broker_epoch=lambda: 7,
            image=lambda: self.image,
            directory_of=self._directory_of,
        )

    def _directory_of(self, topic: str, index: int) -> tuple[OwnReplica, Uuid] | None:
        found = self.directories.get((topic, index))
        return None if found is None else (replica(index, topic), found)

    def report(self, index: int, directory_id: Uuid = A, topic: str = "t") -> list[bool]:
        results: list[bool] = []
        self.assignments.report(replica(index, topic), directory_id).add_done_callback(results.append)
        return results

    def turn(self, seconds: float = 0) -> None:
        self.timer.advance(seconds)

    def asked(self) -> list[tuple[Uuid, int]]:
        """The reports in the last request."""
        return [
            (directory.id, part.partition_index)
            for directory in self.controller.last(AssignReplicasToDirsRequest).directories
            for topic in directory.topics
            for part in topic.partitions
        ]

    def acknowledge(self, *failed: int) -> None:
        """The controller acknowledges the last request, but for these partitions."""
        kind = AssignReplicasToDirsResponse
        request = self.controller.last(AssignReplicasToDirsRequest)
        directories = [
            kind.DirectoryData(
                id=directory.id,
                topics=[
                    kind.TopicData(
                        topic_id=topic.topic_id,
                        partitions=[
                            kind.PartitionData(
                                partition_index=part.partition_index,
                                error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER
                                if part.partition_index in failed
                                else 0,
                            )
                            for part in topic.partitions
                        ],
                    )
                    for topic in directory.topics
                ],
            )
            for directory in request.directories
        ]
        self.controller.respond(kind(directories=directories))


def test_reports_go_together_by_directory_and_topic() -> None:
    request = assign_replicas(
        1, 7, [(A, Place(topic_id("t"), 0)), (B, Place(topic_id("t"), 1)), (A, Place(topic_id("u"), 2))]
    )
    decoded = decode(AssignReplicasToDirsRequest, 0, encode(request, 0))
    assert [
        (
            directory.id,
            [
                (topic.topic_id, [part.partition_index for part in topic.partitions])
                for topic in directory.topics
            ],
        )
        for directory in decoded.directories
    ] == [(A, [(topic_id("t"), [0]), (topic_id("u"), [2])]), (B, [(topic_id("t"), [1])])]
    assert (decoded.broker_id, decoded.broker_epoch) == (1, 7)


def test_a_report_is_true_when_it_is_acknowledged() -> None:
    r = Reports()
    results = [r.report(0), r.report(1, B)]
    assert r.controller.submitted == []
    r.turn()
    assert r.asked() == [(A, 0), (B, 1)]
    assert results == [[], []]
    r.acknowledge()
    assert results == [[True], [True]]
    assert r.assignments.unacknowledged == 0
    r.turn(60)
    assert len(r.controller.submitted) == 1


def test_the_newest_report_of_a_replica_counts() -> None:
    r = Reports()
    first, again, second = r.report(0, A), r.report(0, A), r.report(0, B)
    assert first == again == [False]
    r.turn()
    assert r.asked() == [(B, 0)]
    third = r.report(0, A)  # while that is under way
    r.acknowledge()
    assert second == [True]
    r.turn()
    assert r.asked() == [(A, 0)]
    r.acknowledge()
    assert third == [True]


def test_a_report_that_failed_gives_way_to_a_newer_one() -> None:
    r = Reports()
    first = r.report(0, A)
    r.turn()
    second = r.report(0, B)
    r.controller.respond(DeadlineExpired("too late"))
    r.turn(0.1)
    assert first == [False]
    assert r.asked() == [(B, 0)]
    r.acknowledge()
    assert second == [True]


def test_a_replica_that_is_not_here_is_not_reported() -> None:
    r = Reports()
    assert r.report(0, topic="u") == [False]
    assert r.report(99) == [False]
    gone = r.report(1)
    r.image = image_of(*topic_records("t", [1]))
    r.turn()
    assert gone == [False]
    assert r.controller.submitted == []
    assert r.report(0) == []
    r.turn()
    assert r.asked() == [(A, 0)]


@pytest.mark.parametrize(
    "trouble",
    [
        AssignReplicasToDirsResponse(error_code=ErrorCode.STALE_BROKER_EPOCH),
        AssignReplicasToDirsResponse(),
        DeadlineExpired("too late"),
    ],
)
def test_failures_are_repeated_more_and_more_slowly(trouble: Message | ChannelError) -> None:
    r = Reports()
    results = r.report(0)
    r.turn()
    for delay_s in (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10):
        count = len(r.controller.submitted)
        r.controller.respond(trouble)
        r.turn(delay_s * 0.99)
        assert len(r.controller.submitted) == count
        r.turn(delay_s * 0.02)
        assert len(r.controller.submitted) == count + 1
    r.acknowledge()
    assert results == [True]
    r.report(1)
    r.turn()
    assert r.asked() == [(A, 1)]  # at once


def test_what_fails_for_itself_is_repeated_for_itself() -> None:
    r = Reports()
    results = [r.report(index) for index in range(3)]
    r.turn()
    r.acknowledge(1)
    assert results == [[True], [], [True]]
    r.turn(0.11)
    assert r.asked() == [(A, 1)]


def test_a_request_has_2250_reports_at_most() -> None:
    r = Reports(MANY)
    results = [r.report(index) for index in range(MANY)]
    r.turn()
    assert len(r.asked()) == 2250
    assert r.assignments.unacknowledged == MANY
    r.acknowledge()
    r.turn()
    assert len(r.asked()) == 50
    r.acknowledge()
    assert results == [[True]] * MANY


def test_a_new_image_is_compared_with_where_the_replicas_are() -> None:
    r = Reports(4)
    r.directories = {
        ("t", 0): A,
        ("t", 1): bytes(16),
        ("u", 0): A,
    }  # t-1 is where the image has it, t-2 is offline
    r.assignments.apply(r.image, MetadataDelta.everything(r.image))
    r.turn()
    assert r.asked() == [(A, 0)]


def test_a_channel_that_closes_ends_it() -> None:
    r = Reports()
    first = r.report(0)
    r.turn()
    second = r.report(1)
    r.controller.respond(ChannelClosed("stopping"))
    assert first == second == r.report(2) == [False]
    r.turn(60)
    assert len(r.controller.submitted) == 1


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("report"), st.integers(0, 3), st.sampled_from([A, B])),
            st.tuples(st.sampled_from(["acknowledge", "fail", "half"]), st.just(0), st.just(A)),
        ),
        max_size=40,
    )
)
def test_in_the_end_the_controller_knows_the_newest_report_of_each_replica(
    steps: list[tuple[str, int, Uuid]],
) -> None:
    r, wanted, known = Reports(), dict[int, Uuid](), dict[int, Uuid]()
    results: list[list[bool]] = []

    def acknowledge(*failed: int) -> None:
        if r.controller.under_way:
            assert r.controller.under_way == 1
            known.update({index: directory for directory, index in r.asked() if index not in failed})
            r.acknowledge(*failed)

    for step, index, directory in steps:
        if step == "report":
            wanted[index] = directory
            results.append(r.report(index, directory))
        elif step == "fail" and r.controller.under_way:
            r.controller.respond(DeadlineExpired("too late"))
        else:
            acknowledge(*([0, 1] if step == "half" else []))
        r.turn(0.03)
    for _ in range(3):
        r.turn(20)
        acknowledge()
    r.turn()
    assert known == wanted
    assert all(len(each) == 1 for each in results)
