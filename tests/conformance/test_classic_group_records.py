"""Each broker loads the groups that the other has written to __consumer_offsets.

Members resume in their generation, and groups of types that Barnabas does not serve are retained.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.messages.commits import OffsetCommitRequest
from barnabas.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from barnabas.protocol.messages.share_groups import ShareGroupHeartbeatRequest
from barnabas.protocol.messages.streams_groups import StreamsGroupHeartbeatRequest
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues.members import Member, a_group
from tests.conformance.handover.sides import KAFKA, OURS, Directory
from tests.conformance.kafka_jars import KAFKA_39, KAFKA_41

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(300)]

LONG = bool(os.environ.get("BARNABAS_HANDOVER_SEEDS"))
VERSIONS = [KAFKA, KAFKA_41, KAFKA_39] if LONG else [KAFKA]
SETTINGS = {"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "3"}
ALL_KINDS = {"group.coordinator.rebalance.protocols": "classic,consumer,share,streams"}
LONG_SESSION_MS = 1_800_000
MEMBER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.fixture
def directory(tmp_path: Path, version: str) -> Iterator[Directory]:
    place = Directory(tmp_path, SETTINGS | (ALL_KINDS if version == KAFKA else {}))
    yield place
    place.end()


class Groups:
    """The groups of this history and their members, at the current coordinator."""

    def __init__(self, port: int, stack: ExitStack) -> None:
        self._stack = stack
        self.members: dict[str, Member] = {}
        self.connect(port)

    def connect(self, port: int) -> None:
        """Connects the members to another broker after a takeover."""
        connection = self._stack.enter_context(BrokerConnection("127.0.0.1", port))
        self.client = DialogueClient(connection, 9, "handover")
        before, self.members = self.members, {}
        for name, member in before.items():
            again = self.member(member.group, name, member.instance, member.kind)
            again.id, again.generation = member.id, member.generation

    def member(self, group: str, name: str, instance: str | None = None, kind: str = "consumer") -> Member:
        member = Member(self.client, group, instance=instance, kind=kind, session_ms=LONG_SESSION_MS)
        self.members[name] = self._stack.enter_context(member)
        return member

    def stable(self, group: str, *names: str, static: bool = False, kind: str = "consumer") -> None:
        members = [self.member(group, name, name if static else None, kind) for name in names]
        members[0].join()
        members[0].sync({members[0].id: b"all"})
        for name, member in zip(names[1:], members[1:], strict=True):
            member.begin_to_join()
            self.until_state(group, "PreparingRebalance")
            members[0].join()
            member.joined()
            member.begin_to_sync()
            members[0].sync({members[0].id: b"first", member.id: name.encode()})
            member.synced()

    def until_state(self, group: str, state: str) -> None:
        request = DescribeGroupsRequest(groups=[group])
        self.client.request_until(request, lambda answer: answer.groups[0].group_state == state, 5)

    def view(self) -> object:
        """The listing and the descriptions of all groups."""
        a_group(self.client, "any")
        listed: Any = self.client.request_until(ListGroupsRequest(), lambda answer: answer.error_code == 0, 4)
        groups = sorted(listed.groups, key=lambda group: str(group.group_id))
        described: list[Any] = []
        for group in groups:
            answer: Any = self.client.connection.request(DescribeGroupsRequest(groups=[group.group_id]), 5)
            answer.groups[0].members.sort(key=lambda member: str(member.member_id))
            described += answer.groups
        return [(group.group_id, group.protocol_type, group.group_state) for group in groups], described

    def check_members_resume(self) -> None:
        """Each member is in its generation and gets its assignment."""
        for name, member in self.members.items():
            assert member.heartbeat().error_code == 0, name
            answer = member.sync()
            assert (answer.error_code, bool(answer.assignment)) == (0, True), name

    def commit_alone(self, group: str) -> None:
        """Commits offsets of a group without members."""
        topic = self.client.create("t")
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=-1,
            topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        answer: Any = self.client.connection.request(request, 8)
        assert answer.topics[0].partitions[0].error_code == 0


def create_unserved_groups(groups: Groups) -> None:
    """Creates a share group and a streams group, each with a member."""
    topic = groups.client.create("in")
    share = ShareGroupHeartbeatRequest(
        group_id="share", member_id=MEMBER_ID, member_epoch=0, subscribed_topic_names=[topic]
    )
    groups.client.request_until(share, lambda answer: answer.error_code == 0, 1)
    subtopology = StreamsGroupHeartbeatRequest.Subtopology(subtopology_id="0", source_topics=[topic])
    streams = StreamsGroupHeartbeatRequest(
        group_id="streams",
        member_id=MEMBER_ID,
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        topology=StreamsGroupHeartbeatRequest.Topology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
        process_id="p",
        client_tags=[],
    )
    groups.client.request_until(streams, lambda answer: answer.error_code == 0, 0)


@pytest.mark.parametrize("version", VERSIONS)
def test_groups_and_members_survive_takeovers(version: str, directory: Directory) -> None:
    with ExitStack() as stack:
        kafka = directory.broker(version).start()
        groups = Groups(kafka.port, stack)
        a_group(groups.client, "any")
        groups.stable("dynamic", "a", "b")
        groups.stable("static", "c", "d", static=True)
        groups.stable("workers", "w", kind="connect")
        groups.member("empty", "gone").join()
        groups.members.pop("gone").leave()
        groups.member("assigning", "late").join()
        del groups.members["late"]
        groups.commit_alone("alone")
        if version == KAFKA:
            create_unserved_groups(groups)
        seen = groups.view()
        kafka.stop()

        ours = directory.broker(OURS).start()
        groups.connect(ours.port)
        assert groups.view() == as_written(seen, version)
        groups.check_members_resume()
        back = groups.member("static", "d", "d")
        assert back.join().generation_id == 2
        groups.members["a"].leave()
        groups.members.pop("a")
        groups.members["b"].join()
        groups.members["b"].sync({groups.members["b"].id: b"all"})
        for name in ("dynamic", "share", "streams"):
            answer: Any = groups.client.connection.request(DeleteGroupsRequest(groups_names=[name]), 2)
            assert answer.results[0].error_code == (68 if name == "dynamic" or version == KAFKA else 69)
        answer = groups.client.connection.request(DeleteGroupsRequest(groups_names=["empty"]), 2)
        assert answer.results[0].error_code == 0
        seen = groups.view()
        ours.stop()

        again = directory.broker(version).start()
        groups.connect(again.port)
        assert groups.view() == seen
        groups.check_members_resume()


def as_written(seen: Any, version: str) -> Any:
    """`seen` as the log has it: a group without its first assignment is empty there; Kafka 3.9 has not written it."""
    listed, described = seen
    found = {group.group_id: group for group in described}
    if version == KAFKA_39:
        del found["assigning"]
    else:
        group = found["assigning"]
        group.group_state, group.protocol_type, group.members = "Empty", "", []
    kept = [("assigning", "", "Empty") if entry[0] == "assigning" else entry for entry in listed]
    return [entry for entry in kept if entry[0] in found], list(found.values())
