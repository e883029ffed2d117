"""ConsumerGroupHeartbeat and ConsumerGroupDescribe, and other APIs on consumer groups."""

from __future__ import annotations

from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.commits import OffsetCommitRequest
from barnabas.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.consumers import (
    Consumer,
    add_partitions,
    awaits_topics,
    configure,
    delete_topic,
    described,
)
from tests.conformance.dialogues.members import Member, a_group

HEARTBEAT, DESCRIBE = ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE
ABC = ("a", "b", "c")


@dialogue(HEARTBEAT, 0, 1)
def a_member_joins_and_leaves(client: DialogueClient) -> None:
    topic = client.create("t", 3)
    group = a_group(client, "g")
    member = Consumer(client, group, "m")
    member.join(topic)
    described(client, group)
    member.heartbeat()
    member.report_owned({topic: [0, 1, 2]})
    member.heartbeat(rebalance_timeout_ms=40_000, subscribed_topic_names=[topic], topic_partitions=[])
    described(client, group)
    member.leave()
    described(client, group)
    member.heartbeat()
    member.leave()


@dialogue(HEARTBEAT, 0, 0)
def the_coordinator_generates_the_member_id(client: DialogueClient) -> None:
    group = a_group(client, "g")
    answer = client.connection.request(Consumer(client, group, "").heartbeat_request(**JOINING), 0)
    client.note((answer.error_code, len(answer.member_id), answer.member_epoch))  # type: ignore[attr-defined]


JOINING: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout_ms": 30_000,
    "subscribed_topic_names": ["t"],
    "topic_partitions": [],
}


@dialogue(HEARTBEAT, 0, 1)
def invalid_fields(client: DialogueClient) -> None:
    group = a_group(client, "g")
    member = Consumer(client, group, "m")
    for wrong in (
        {"group_id": ""},
        {"group_id": "  "},
        {"member_id": "", "member_epoch": 1},
        {"member_id": "", "member_epoch": -1},
        {"member_id": "", "member_epoch": -2, "instance_id": "i"},
        {"instance_id": ""},
        {"rack_id": " "},
        {"rebalance_timeout_ms": -1},
        {"topic_partitions": None},
        {"topic_partitions": member.partitions({client.create("x"): [0]})},
        {"subscribed_topic_names": None},
        {"member_epoch": -2},
        {"member_epoch": -3},
        {"server_assignor": "best"},
        {"server_assignor": ""},
        {"member_epoch": 1},
        {"member_epoch": -1},
        {"member_epoch": -2, "instance_id": "i"},
    ):
        client.request(member.heartbeat_request(**{**JOINING, **wrong}), member.version)


@dialogue(HEARTBEAT, 0, 1)
def members_share_a_topic(client: DialogueClient) -> None:
    """The second member gets no partition until the first reports that it revoked it."""
    topic = client.create("t", 4)
    first, second, third = (Consumer(client, a_group(client, "g"), word) for word in ABC)
    first.join(topic)
    second.join(topic)
    second.heartbeat()
    first.heartbeat()
    described(client, first.group)
    first.heartbeat()
    second.report_owned({})
    first.report_owned({topic: [0, 1, 2, 3]})
    first.report_owned({topic: [0, 1]})
    described(client, first.group)
    second.heartbeat()
    second.report_owned({topic: [2, 3]})
    described(client, first.group)
    third.join(topic)
    for member in (first, second, third, first, second, third):
        member.heartbeat()
    first.leave()
    for member in (second, third):
        member.heartbeat()
    described(client, first.group)


@dialogue(HEARTBEAT, 0, 1)
def different_subscriptions(client: DialogueClient) -> None:
    topics = [client.create("t", 5), client.create("u", 2), client.create("v", 1)]
    group = a_group(client, "g")
    members = [Consumer(client, group, word) for word in ABC]
    members[0].join(*topics)
    members[1].join(*topics[:2])
    members[2].join(topics[2], "nowhere")
    for _ in range(2):
        for member in members:
            member.report_owned({})
    counts = target_counts(client, group)
    client.note(counts)
    members[0].report_owned({}, subscribed_topic_names=[topics[1]])
    for member in members:
        member.report_owned({})


def target_counts(client: DialogueClient, group: str) -> object:
    """The number of partitions in the target assignment of each member."""
    from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest

    answer: Any = client.connection.request(ConsumerGroupDescribeRequest(group_ids=[group]), 1)
    return sorted(
        (member.member_id, sum(len(t.partitions) for t in member.target_assignment.topic_partitions))
        for member in answer.groups[0].members
    )


@dialogue(HEARTBEAT, 0, 1)
def the_range_assignor(client: DialogueClient) -> None:
    topic, other = client.create("t", 5), client.create("u", 5)
    group = a_group(client, "g")
    for word in ABC:
        Consumer(client, group, word).join(topic, other, server_assignor="range")
    described(client, group)
    Consumer(client, group, "d").join(topic, server_assignor="uniform")
    described(client, group)


@dialogue(HEARTBEAT, 1, 1)
def equally_preferred_assignors(client: DialogueClient) -> None:
    """`=`: joins or prefers another assignor; `-`: leaves; `.`: heartbeat. One topic, as the order of ids differs."""
    topic = client.create("t", 5)
    for number, line in enumerate(
        (
            "a=range b=uniform c .b .a",
            "a=uniform b=range c .a .b",
            "a=range b=range c=uniform d=uniform e .a",
            "a=uniform b=uniform c=range d=range e .a",
            "a=range b=uniform c=range -a .b .c",
            "a=range b=uniform c=range -a .c .b",
            "a b=range c=uniform d -a .d .b",
            "a=range b=uniform a=uniform b=range a=range",
        )
    ):
        group = a_group(client, f"g{number}")
        members: dict[str, Consumer] = {}
        for step in line.split():
            word, _, assignor = step.strip("-.").partition("=")
            chosen = {"server_assignor": assignor} if assignor else {}
            if step[0] == "-":
                members.pop(word).leave()
            elif step[0] == ".":
                members[word].heartbeat()
            elif word in members:
                members[word].heartbeat(subscribed_topic_names=[topic], **chosen)
            else:
                members[word] = Consumer(client, group, word)
                members[word].join(topic, **chosen)
            described(client, group)


@dialogue(HEARTBEAT, 0, 1)
def wrong_member_epochs(client: DialogueClient) -> None:
    topic = client.create("t", 2)
    group = a_group(client, "g")
    first, second = Consumer(client, group, "a"), Consumer(client, group, "b")
    first.join(topic)
    second.join(topic)
    first.heartbeat(member_epoch=9)
    first.report_owned({topic: [0, 1]}, member_epoch=1)
    first.heartbeat(member_epoch=1)
    first.report_owned({topic: [0]})
    first.report_owned({topic: [0]}, member_epoch=2)
    first.report_owned({topic: [0, 1]}, member_epoch=2)
    first.heartbeat(member_epoch=2)
    first.join(topic)
    first.join(topic, subscribed_topic_names=[topic, "more"])
    Consumer(client, group, "stranger").heartbeat(member_epoch=3)
    Consumer(client, client.topic("no-group"), "a").heartbeat(member_epoch=3)
    Consumer(client, client.topic("no-group"), "a").leave()


@dialogue(HEARTBEAT, 0, 1)
def static_members(client: DialogueClient) -> None:
    topic = client.create("t", 4)
    group = a_group(client, "g")
    first, second = (Consumer(client, group, word, instance=f"i-{word}") for word in ("a", "b"))
    first.join(topic)
    second.join(topic)
    first.report_owned({topic: [0, 1]})
    second.report_owned({})
    intruder = Consumer(client, group, "c", instance="i-a")
    intruder.join(topic)
    intruder.heartbeat(member_epoch=first.epoch)
    first.leave(-2)
    described(client, group)
    first.heartbeat()
    intruder.leave(-2)
    intruder.join(topic)
    described(client, group)
    first.heartbeat()
    first.leave()
    intruder.leave(-1)
    described(client, group)
    Consumer(client, group, "d", instance="nobody").heartbeat(member_epoch=1)
    Consumer(client, group, "d", instance="nobody").leave(-2)


@dialogue(HEARTBEAT, 0, 1)
def topics_are_created_extended_and_deleted(client: DialogueClient) -> None:
    topic, late = client.create("t", 1), client.topic("late")
    group = a_group(client, "g")
    member = Consumer(client, group, "m")
    member.join(topic, late)
    client.create("late", 2)
    member.until_assigned(3)
    described(client, group)
    add_partitions(client, topic, 3)
    member.until_assigned(5)
    described(client, group)
    delete_topic(client, late)
    member.until_assigned(3)
    member.report_owned({topic: [0, 1, 2]})
    described(client, group)


@dialogue(HEARTBEAT, 0, 1)
def group_configs(client: DialogueClient) -> None:
    member = Consumer(client, a_group(client, "g"), "m")
    member.join("t")
    for interval_ms in (7_000, 9_000):
        configure(client, member.group, {"consumer.heartbeat.interval.ms": str(interval_ms)})
        member.until_interval(interval_ms)
        member.heartbeat()


@dialogue(HEARTBEAT, 1, 1)
def regular_expressions(client: DialogueClient) -> None:
    topic, group = client.create("t", 2), a_group(client, "g")
    awaits_topics(client, group, topic, client.create("u", 1))
    member = Consumer(client, group, "m")
    for wrong in ("(", "[z-a]", "a**", "(?=a)", "\\1", "x{1001}"):
        member.join(subscribed_topic_names=None, subscribed_topic_regex=wrong)
    member.join(subscribed_topic_names=None, subscribed_topic_regex=f"{client.topic('')}[tu]")
    member.until_assigned(3)
    described(client, group)
    other = Consumer(client, group, "n")
    other.join(topic, subscribed_topic_regex=f"{client.topic('')}[tu]")
    member.report_owned({})
    other.report_owned({})
    described(client, group)
    member.report_owned({}, subscribed_topic_regex="")
    other.report_owned({}, subscribed_topic_regex="")
    member.report_owned({})
    described(client, group)


@dialogue(DESCRIBE, 0, 1)
def unknown_and_classic_groups(client: DialogueClient) -> None:
    classic = a_group(client, "classic")
    with Member(client, classic) as member:
        member.join()
        for names in ([client.topic("nowhere")], [classic], [""], []):
            described(client, *names, version=client.version)
            described(client, *names, version=client.version, include_authorized_operations=True)


@dialogue(DESCRIBE, 0, 1)
def several_groups(client: DialogueClient) -> None:
    topic = client.create("t", 2)
    groups = [a_group(client, word) for word in ABC]
    for group in groups:
        Consumer(client, group, "m").join(topic, rack_id="r", server_assignor="range")
    described(client, *groups, version=client.version, include_authorized_operations=True)
    described(client, groups[0], groups[0], client.topic("nowhere"), version=client.version)


@dialogue(HEARTBEAT, 1, 1)
def other_apis(client: DialogueClient) -> None:
    """ListGroups, DescribeGroups and DeleteGroups; OffsetCommit in the epochs of a member."""
    topic = client.create("t", 2)
    group = a_group(client, "g")
    member = Consumer(client, group, "m")
    member.join(topic)

    def own(answer: Any) -> object:
        return [found for found in answer.groups if found.group_id == group]

    client.request(ListGroupsRequest(types_filter=["consumer"]), 5, noting=own)
    client.request(ListGroupsRequest(states_filter=["stable"]), 5, noting=own)
    client.request(ListGroupsRequest(types_filter=["classic"]), 5, noting=own)
    client.request(DescribeGroupsRequest(groups=[group]), 5)
    client.request(DescribeGroupsRequest(groups=[group]), 6)
    client.request(DeleteGroupsRequest(groups_names=[group]), 2)
    for epoch, member_id, version in (
        (member.epoch, "m", 9), (member.epoch, "m", 8), (0, "m", 9), (1, "m", 9), (9, "m", 9), (-1, "", 9),
        (member.epoch, "x", 9),
    ):  # fmt: skip
        client.request(commit(group, topic, epoch, member_id), version)
    member.leave()
    client.request(commit(group, topic, -1, ""), 9)
    client.request(ListGroupsRequest(states_filter=["Empty"]), 5, noting=own)
    client.request(DeleteGroupsRequest(groups_names=[group]), 2)
    described(client, group)


def commit(group: str, topic: str, epoch: int, member_id: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=1, committed_metadata=""
    )
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
